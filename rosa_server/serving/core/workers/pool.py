"""All warm workers of the gateway: which of them may take a batch first, and what each is given."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from rosa_contract.wire.messages import WorkerReady
from rosa_server.serving.core.queueing.ledger import Call
from rosa_server.serving.core.workers.worker_state import Batch, ContinuousState, SharedGpu, WorkerState

HANG_S = 30.0  # a batch that runs longer than this, and than three times every SLO in it, hangs
MAX_OBSERVATIONS = 4096  # that are remembered; the oldest is forgotten first
Entry = tuple[float, int, WorkerState]


@dataclass(slots=True)
class _OfQueue:
    """The workers of one queue, sorted by which may take a batch first: there may be hundreds, and every call asks.

    An entry is (key, order, worker); no two workers have the same order.
    """

    workers: list[WorkerState] = field(default_factory=list)
    # At the edge, of workers that run whole batches: without a batch (key 0), and with one, by when they take the next.
    idle: list[Entry] = field(default_factory=list)
    busy: list[Entry] = field(default_factory=list)
    # At the edge, of workers that run several calls: by how many they run.
    together: list[Entry] = field(default_factory=list)
    held: int = 0  # calls
    away: int = 0  # workers in the cloud

    def put(self, worker: WorkerState) -> None:
        """A worker holds other batches than before, or is new."""
        self.held += worker.held
        entries = self._entries(worker)
        if entries is not None:
            insort(entries, (worker.key, worker.order, worker))

    def take(self, worker: WorkerState) -> None:
        """A worker is about to hold other batches, or to leave."""
        self.held -= worker.held
        entries = self._entries(worker)
        if entries is not None:
            del entries[bisect_left(entries, (worker.key, worker.order))]

    def _entries(self, worker: WorkerState) -> list[Entry] | None:
        """Where it stands; nowhere, when it takes no batch before one of its own ends."""
        if worker.link_s:
            return None
        if worker.one_by_one:
            return self.together
        if not worker.batches:
            return self.idle
        return self.busy if len(worker.batches) < worker.credits else None

    @property
    def idle_count(self) -> int:
        """Workers at the edge that hold nothing."""
        return len(self.idle) + bisect_right(self.together, 0.0, key=_key)

    def soonest(self, now_s: float) -> tuple[WorkerState | None, float | None]:
        """Which one may take a batch first, and when: the one with the fewest, then the first in order."""
        if self.together:
            count, _, worker = self.together[0]
            if self.idle and count:
                return self.idle[0][2], now_s
            if count < worker.credits:
                return worker, now_s
        if self.idle:
            return self.idle[0][2], now_s
        if not self.busy:
            return None, None
        if self.busy[0][0] > now_s:
            return self.busy[0][2], self.busy[0][0]
        free = self.busy[: bisect_right(self.busy, now_s, key=_key)]
        return min(free, key=_order)[2], now_s


def _key(entry: Entry) -> float:
    return entry[0]


def _order(entry: Entry) -> int:
    return entry[1]


class Gathering:
    """Which worker knows an observation: calls about the same one go to the same worker, which then looks at it once.

    OxyGen 3.3: the prefix of an observation is computed once and read by all calls about it. A worker can only share
    what it has, so where several workers serve a model that shares, the one that was given an observation first gets
    the rest.
    """

    def __init__(self, max_observations: int = MAX_OBSERVATIONS) -> None:
        self._max = max_observations
        self._worker_of: dict[str, str] = {}

    def given(self, worker_id: str, calls: list[Call]) -> None:
        """A worker that shares was given these calls."""
        for call in calls:
            if call.observation:
                self._worker_of.pop(call.observation, None)
                self._worker_of[call.observation] = worker_id
        while len(self._worker_of) > self._max:
            del self._worker_of[next(iter(self._worker_of))]

    def worker_of(self, calls: list[Call]) -> str | None:
        """The worker that has the observation of the first of these calls with one; None: none that is still here."""
        if not self._worker_of:
            return None
        observation = next((call.observation for call in calls if call.observation), "")
        return self._worker_of.get(observation)

    def forget(self, worker_id: str) -> None:
        """A worker is gone, and with it what it knew."""
        self._worker_of = {name: worker for name, worker in self._worker_of.items() if worker != worker_id}


class WorkerPool:
    """All warm workers of one gateway."""

    def __init__(self) -> None:
        self._workers: dict[str, WorkerState] = {}
        self._of_queue: dict[str, _OfQueue] = {}
        self._gathering = Gathering()
        self._in_turn: set[str] = set()  # queues whose idle workers take their calls in turn
        self._next_batch = self._next_order = 0

    def __iter__(self) -> Iterator[WorkerState]:
        return iter(self._workers.values())

    def get(self, worker_id: str) -> WorkerState | None:
        return self._workers.get(worker_id)

    @property
    def next_batch(self) -> int:
        """The number of the batch that is given next, to whatever worker."""
        return self._next_batch

    def add(
        self,
        ready: WorkerReady,
        replica: str,
        queue: str,
        max_batch: int,
        at_once: int = 1,
        link_s: float = 0.0,
        gpu: SharedGpu | None = None,
        shadows: bool = False,
    ) -> WorkerState:
        """`gpu`: the one that it shares with workers of other models. `shadows`: it stays out of every queue."""
        kind = ContinuousState if at_once > 1 else WorkerState
        worker = kind(ready.worker_id, ready.model, replica, queue, max_batch, at_once, link_s, gpu)
        if gpu is not None:
            gpu.workers.append(worker)
        worker.shares, worker.epoch, worker.shadows = ready.shares, ready.epoch, shadows
        self._workers[ready.worker_id] = worker
        if not shadows:
            self._join(worker, queue)
        return worker

    def _join(self, worker: WorkerState, queue: str) -> None:
        self._next_order += 1
        worker.queue, worker.order = queue, self._next_order
        group = self._of_queue.setdefault(queue, _OfQueue())
        group.workers.append(worker)
        group.away += worker.link_s > 0
        group.put(worker)

    def _part(self, worker: WorkerState) -> None:
        group = self._of_queue[worker.queue]
        group.workers.remove(worker)
        group.away -= worker.link_s > 0
        group.take(worker)

    def in_turn(self, queue: str, wanted: bool) -> None:
        """Idle workers of a queue take its calls in turn, so that each gets some, or the first one of them."""
        (self._in_turn.add if wanted else self._in_turn.discard)(queue)

    def feed_from(self, worker: WorkerState, queue: str) -> None:
        """A worker takes its calls from another queue from now on; what it runs it finishes."""
        self._part(worker)
        self._join(worker, queue)

    def remove(self, worker_id: str) -> WorkerState | None:
        worker = self._workers.pop(worker_id, None)
        if worker is not None and not worker.apart:
            self._part(worker)
        if worker is not None:
            self._gathering.forget(worker_id)
            if worker.gpu is not None:
                worker.gpu.workers.remove(worker)
        return worker

    def retire(self, worker: WorkerState) -> None:
        """It is given nothing more; what it runs it finishes."""
        if not worker.apart:
            self._part(worker)
        self._gathering.forget(worker.worker_id)
        worker.retired = True

    def of(self, queue: str) -> Sequence[WorkerState]:
        group = self._of_queue.get(queue)
        return group.workers if group is not None else ()

    def serves(self, replica: str) -> bool:
        """Whether a replica has its own warm worker."""
        return any(one.replica == replica and not one.apart for one in self._workers.values())

    def edge(self, queue: str) -> Sequence[WorkerState]:
        """The workers of a queue that are no link away."""
        return [worker for worker in self.of(queue) if not worker.link_s]

    def held(self, queue: str) -> int:
        """How many calls the workers of a queue hold."""
        group = self._of_queue.get(queue)
        return group.held if group is not None else 0

    def idle(self, queue: str) -> int:
        """How many workers of a queue at the edge hold nothing."""
        group = self._of_queue.get(queue)
        return group.idle_count if group is not None else 0

    def soonest(
        self, queue: str, now_s: float, cloud: bool = False
    ) -> tuple[WorkerState | None, float | None]:
        """The worker of this queue at the edge, or in the cloud, that may take a batch first, and when; (None, None)
        when none has credit."""
        group = self._of_queue.get(queue)
        if group is None:
            return None, None
        if not cloud:
            return group.soonest(now_s)
        best: WorkerState | None = None
        best_key: tuple[float, int] | None = None
        for worker in group.workers if group.away else ():
            free_s = worker.free_at_s(now_s) if worker.link_s else None
            if free_s is None:
                continue
            key = (free_s, len(worker.batches))
            if best_key is None or key < best_key:
                best, best_key = worker, key
        return best, None if best_key is None else best_key[0]

    def gathered(self, worker: WorkerState, calls: list[Call], now_s: float) -> WorkerState:
        """What runs these calls, of the queue of `worker`: the one that knows their observation, if it may take them.

        Otherwise `worker`, which was going to.
        """
        known = self._workers.get(self._gathering.worker_of(calls) or "")
        if known is None or not known.shares or known.link_s or known.queue != worker.queue:
            return worker
        return known if known.free_at_s(now_s) == now_s and len(calls) <= known.largest else worker

    def beside(self, worker: WorkerState) -> list[WorkerState]:
        """The others of its name: whose place it may take."""
        name = worker.worker_id.rpartition(".")[0]
        return [one for one in self if one is not worker and one.worker_id.rpartition(".")[0] == name]

    def give(
        self,
        worker: WorkerState,
        calls: list[Call],
        now_s: float,
        service_s: float | None,
        copies: bool = False,
    ) -> Batch:
        """Book a batch on a worker. With an unknown `service_s` nothing is sent ahead before it ends.

        Raises `RuntimeError` beyond the worker's credits or for another model's calls.
        """
        limit = worker.largest
        if len(worker.batches) >= worker.credits or len(calls) > limit:
            raise RuntimeError(
                f"{worker.worker_id}: {len(calls)} calls beyond its credit of {worker.credits} batches of {limit}"
            )
        together, model, longest_s = worker.one_by_one, worker.model, 0.0
        for call in calls:
            if call.model != model:
                raise RuntimeError(
                    f"{worker.worker_id} serves {model}; it was given a call for another model"
                )
            longest_s = max(longest_s, call.slo_s)
        running = () if together else worker.batches.values()
        start_s = now_s
        for batch in running:
            start_s = max(start_s, batch.expected_end_s)
        run_s = math.inf if service_s is None else service_s
        patience_s = max(HANG_S, 3 * longest_s) + len(running) * HANG_S
        hang_s = now_s + (service_s or 0.0) + patience_s
        size = len(worker.batches) + 1 if together else len(calls)
        buffer = heappop(worker.free)
        batch = Batch(
            self._next_batch, calls, worker.queue, size, run_s, start_s + run_s, hang_s, buffer, copies
        )
        self._next_batch += 1
        group = None if worker.apart else self._of_queue[worker.queue]
        if group is not None:
            group.take(worker)
            if worker.queue in self._in_turn:
                self._next_order += 1
                worker.order = self._next_order
        worker.batches[batch.batch_id] = batch
        worker.held += len(calls)
        if group is not None:
            group.put(worker)
        if worker.shares and group is not None:
            self._gathering.given(worker.worker_id, calls)
        for call in calls:
            call.dispatched_s, call.worker_id = now_s, worker.worker_id
            call.attempts += 1
        return batch

    def ran_as(self, worker: WorkerState, batch_id: int, size: int) -> None:
        """A call ran together with others that this pool knows nothing of: `size` in all."""
        if batch_id in worker.batches and size > 0:
            worker.batches[batch_id].size = size

    def finish(self, worker: WorkerState, batch_id: int, now_s: float, decode_s: float = 0.0) -> None:
        """A batch has ended; its pictures took `decode_s`. The next one begins only now: its end is corrected."""
        if worker.apart:
            batch = worker.batches.pop(batch_id)
            worker.held -= len(batch.calls)
            heappush(worker.free, batch.buffer)
            return
        group = self._of_queue[worker.queue]
        group.take(worker)
        batch = worker.batches.pop(batch_id)
        worker.held -= len(batch.calls)
        heappush(worker.free, batch.buffer)
        worker.decoded(decode_s)
        if (
            not worker.one_by_one and not worker.link_s
        ):  # one that is away has begun with the next one long ago
            start_s = now_s
            for batch in worker.batches.values():
                batch.expected_end_s = start_s = start_s + batch.service_s
        group.put(worker)
