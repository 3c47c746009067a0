"""The gateway's record of its warm workers: what each serves, what it runs, and when it may take more."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from rosa_contract.messages import WorkerReady
from rosa_server.serving.core.ledger import Call
from rosa_server.serving.core.tiers import AWAY

CREDITS = 2  # batches that a worker may hold: one runs, the next arrives while it ends
PREFETCH_S = (
    0.002  # the next is sent this long before the first ends: a call that still waits can be replaced
)
HANG_S = 30.0  # a batch that runs longer than this, and than three times every budget in it, hangs


@dataclass(slots=True)
class Batch:
    """Calls that a worker holds."""

    batch_id: int
    calls: list[Call]
    queue: str  # the one that they waited in
    size: int  # requests that the worker runs together from here on
    service_s: float  # how long it is expected to run; infinite when nothing is known
    expected_end_s: float
    hang_s: float
    buffer: int  # which of the worker's buffers it uses, one for each credit


@dataclass(slots=True)
class WorkerState:
    """One warm worker process; it serves one model for its whole life."""

    worker_id: str
    model: str
    replica: str  # the one that it belongs to
    queue: str  # the one that it takes calls from now
    max_batch: int
    # Calls that it runs at a time, each answered by itself; 1: it runs whole batches, one after another.
    at_once: int = 1
    link_s: float = 0.0  # one way; 0: it is at the edge
    batches: dict[int, Batch] = field(default_factory=dict)  # in order of sending

    @property
    def credits(self) -> int:
        """Batches that it may hold."""
        return max(CREDITS, self.at_once, AWAY if self.link_s else 0)

    def free_at_s(self, now_s: float) -> float | None:
        """When it may take a batch: now, a later time, or None while it holds as many as its credits allow."""
        if not self.batches:
            return now_s
        if len(self.batches) >= self.credits:
            return None
        if self.at_once > 1:
            return now_s
        expected_s = next(reversed(self.batches.values())).expected_end_s
        return max(now_s, expected_s - PREFETCH_S)


class WorkerPool:
    """All warm workers of one gateway."""

    def __init__(self) -> None:
        self._workers: dict[str, WorkerState] = {}
        self._of_queue: dict[str, list[WorkerState]] = {}
        self._next_batch = 0

    def __iter__(self) -> Iterator[WorkerState]:
        return iter(self._workers.values())

    def get(self, worker_id: str) -> WorkerState | None:
        return self._workers.get(worker_id)

    def add(
        self,
        ready: WorkerReady,
        replica: str,
        queue: str,
        max_batch: int,
        at_once: int = 1,
        link_s: float = 0.0,
    ) -> WorkerState:
        worker = WorkerState(ready.worker_id, ready.model, replica, queue, max_batch, at_once, link_s)
        self._workers[ready.worker_id] = worker
        self._of_queue.setdefault(queue, []).append(worker)
        return worker

    def feed_from(self, worker: WorkerState, queue: str) -> None:
        """A worker takes its calls from another queue from now on; what it runs it finishes."""
        self._of_queue[worker.queue].remove(worker)
        self._of_queue.setdefault(queue, []).append(worker)
        worker.queue = queue

    def remove(self, worker_id: str) -> WorkerState | None:
        worker = self._workers.pop(worker_id, None)
        if worker is not None:
            self._of_queue[worker.queue].remove(worker)
        return worker

    def of(self, queue: str) -> Sequence[WorkerState]:
        return self._of_queue.get(queue, ())

    def serves(self, replica: str) -> bool:
        """Whether a replica has a warm worker of its own."""
        return any(worker.replica == replica for worker in self._workers.values())

    def edge(self, queue: str) -> Sequence[WorkerState]:
        """The workers of a queue that are no link away."""
        return [worker for worker in self.of(queue) if not worker.link_s]

    def held(self, queue: str) -> int:
        """How many calls the workers of a queue hold."""
        return sum(len(batch.calls) for worker in self.of(queue) for batch in worker.batches.values())

    def idle(self, queue: str) -> int:
        """How many workers of a queue at the edge hold nothing."""
        return sum(not worker.batches and not worker.link_s for worker in self.of(queue))

    def soonest(
        self, queue: str, now_s: float, cloud: bool = False
    ) -> tuple[WorkerState | None, float | None]:
        """The worker of this queue at the edge, or in the cloud, that may take a batch first, and when; (None, None)
        when none has credit."""
        best: WorkerState | None = None
        best_key: tuple[float, int] | None = None
        for worker in self.of(queue):
            if bool(worker.link_s) is not cloud:
                continue
            free_s = worker.free_at_s(now_s)
            if free_s is None:
                continue
            key = (free_s, len(worker.batches))
            if best_key is None or key < best_key:
                best, best_key = worker, key
        return best, None if best_key is None else best_key[0]

    def give(self, worker: WorkerState, calls: list[Call], now_s: float, service_s: float | None) -> Batch:
        """Book a batch on a worker. With an unknown `service_s` nothing is sent ahead before it ends.

        Raises `RuntimeError` beyond the worker's credits or for another model's calls.
        """
        most = 1 if worker.at_once > 1 else worker.max_batch
        if len(worker.batches) >= worker.credits or len(calls) > most:
            raise RuntimeError(
                f"{worker.worker_id}: {len(calls)} calls beyond its credit of {worker.credits} batches of {most}"
            )
        if any(call.model != worker.model for call in calls):
            raise RuntimeError(
                f"{worker.worker_id} serves {worker.model}; it was given a call for another model"
            )
        together = worker.at_once > 1
        running = () if together else worker.batches.values()
        start_s = max([now_s, *(batch.expected_end_s for batch in running)])
        longest_s = max(call.deadline_s - call.arrived_s for call in calls)
        run_s = math.inf if service_s is None else service_s
        patience_s = max(HANG_S, 3 * longest_s) + len(worker.batches) * HANG_S
        taken = {batch.buffer for batch in worker.batches.values()}
        buffer = next(number for number in range(worker.credits) if number not in taken)
        hang_s = now_s + (service_s or 0.0) + patience_s
        size = len(worker.batches) + 1 if together else len(calls)
        batch = Batch(self._next_batch, calls, worker.queue, size, run_s, start_s + run_s, hang_s, buffer)
        self._next_batch += 1
        worker.batches[batch.batch_id] = batch
        for call in calls:
            call.dispatched_s = now_s
            call.attempts += 1
        return batch

    def finish(self, worker: WorkerState, batch_id: int, now_s: float) -> None:
        """A batch has ended. The next one begins only now, so its expected end is corrected."""
        del worker.batches[batch_id]
        if worker.at_once > 1 or worker.link_s:  # one that is away has begun with the next one long ago
            return
        start_s = now_s
        for batch in worker.batches.values():
            batch.expected_end_s = start_s = start_s + batch.service_s
