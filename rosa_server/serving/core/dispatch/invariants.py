"""The server's promises (DESIGN, "Invariants"), each defined once; chaos and the property tests ask here.

`of_core` looks at a core between two events. `Accounts` looks at nothing but what goes in and comes out, since asking a
core whether it did right would pass whatever it believes.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field

from rosa_contract.wire.messages import CAUSES, OK
from rosa_server.serving.core.dispatch.core import ServingCore
from rosa_server.serving.core.queueing.actions import Action, Dispatch, Reply

ONE_ANSWER = "one_answer"  # every accepted request gets exactly one final answer
EXPIRED_NEVER_RUNS = "expired_never_runs"
CREDIT = "credit"  # no worker holds more than its credit
ITS_MODEL = "its_model"  # a request runs only on a worker that hosts its model
BOUNDED_QUEUES = "bounded_queues"

CREDITS = 2  # batches that a worker holds; a worker that runs several calls at a time holds as many calls
ROUNDING_S = 1e-5
# After its deadline: a hanging worker is noticed after some 30 s for each batch it holds.
ANSWERED_WITHIN_S = 120.0

Key = tuple[bytes, int]  # connection, request id
RuleBroken = tuple[str, str]  # one of the rules, and what happened, in words


def of_core(core: ServingCore, queue_limit: int) -> Iterator[RuleBroken]:
    """Everything that is wrong with what `core` holds now. `queue_limit`: requests that may wait for one model."""
    for name, queue in core.queues.items():
        if not len(queue):
            continue
        if len(queue) > queue_limit:
            yield BOUNDED_QUEUES, f"{len(queue)} wait for {name}; limit {queue_limit}"
        waiting = set()
        for call in queue:
            if call.key in waiting:
                yield BOUNDED_QUEUES, f"two requests of {call.robot_id} for {call.component} wait"
            if not core.ledger.is_open(call.ticket):
                yield ONE_ANSWER, f"{call.robot_id}'s {call.component} waits, but has been answered"
            waiting.add(call.key)
    for worker in core.pool:
        if len(worker.batches) > max(CREDITS, worker.at_once):
            yield CREDIT, f"{worker.worker_id} holds {len(worker.batches)} batches"
        for batch in worker.batches.values():
            if len(batch.calls) > worker.max_batch:
                yield CREDIT, f"{worker.worker_id} holds a batch of {len(batch.calls)} of {worker.max_batch}"


@dataclass(slots=True)
class _Request:
    """All deliveries of one request."""

    deadline_s: float
    model: str
    deliveries: int = 0
    replies: int = 0
    dispatches: int = 0
    grace_s: float = 0.0  # after its deadline, in which its answer may still come
    workers: set[str] = field(default_factory=set)  # that hold it now


@dataclass(slots=True)
class _Worker:
    model: str
    credits: int
    max_batch: int
    held: dict[int, list[Key]] = field(default_factory=dict)


class Accounts:
    """Everything that one life of a gateway decides."""

    def __init__(self) -> None:
        self._requests: dict[Key, _Request] = {}
        self._due: list[tuple[float, Key]] = []
        self._tickets: set[int] = set()
        self._workers: dict[str, _Worker] = {}
        self.accepted = self.answered = self.dispatched = 0
        self.answers: dict[str, int] = {}  # by cause

    # -- what goes in --------------------------------------------------------------------------------------------------

    def worker(self, worker_id: str, model: str, at_once: int, max_batch: int) -> None:
        """A worker is ready."""
        self._workers[worker_id] = _Worker(model, max(CREDITS, at_once), 1 if at_once > 1 else max_batch)

    def worker_gone(self, worker_id: str) -> None:
        """The gateway is told that a worker has ended, or has ended it itself."""
        worker = self._workers.pop(worker_id, None)
        for keys in worker.held.values() if worker is not None else ():
            for key in keys:
                self._requests[key].workers.discard(worker_id)

    def executed(self, worker_id: str, batch_id: int) -> None:
        """A worker's answer for a batch that it holds reaches the gateway."""
        worker = self._workers.get(worker_id)
        for key in worker.held.pop(batch_id, ()) if worker is not None else ():
            self._requests[key].workers.discard(worker_id)

    def request(self, now_s: float, key: Key, model: str, budget_ms: float) -> None:
        """A request of a welcomed robot reaches the gateway. `model`: the one that may run it; empty for none."""
        deadline_s = now_s + budget_ms / 1000
        known = self._requests.get(key)
        if known is None:
            known = self._requests[key] = _Request(deadline_s, model)
        known.deliveries += 1
        known.deadline_s = max(known.deadline_s, deadline_s)
        self.accepted += 1
        heapq.heappush(self._due, (known.deadline_s + ROUNDING_S, key))

    def handed_on(self, key: Key, grace_s: float) -> None:
        """A request is run elsewhere. It has an answer so long after its deadline at the latest."""
        self._requests[key].dispatches += 1
        self._requests[key].grace_s = grace_s
        self.dispatched += 1

    # -- what comes out ------------------------------------------------------------------------------------------------

    def decided(self, now_s: float, action: Action) -> list[RuleBroken]:
        """What the core has decided; what is wrong with it."""
        if isinstance(action, Reply):
            return list(self._reply(action))
        return list(self._dispatch(now_s, action)) if isinstance(action, Dispatch) else []

    def _reply(self, reply: Reply) -> Iterator[RuleBroken]:
        call = reply.call
        key = (call.connection, call.request_id)
        request = self._requests.get(key)
        what = f"{call.robot_id}'s {call.component} {call.request_id}"
        if request is None:
            yield ONE_ANSWER, f"{what} is answered, but it was never accepted"
            return
        request.replies += 1
        if call.ticket in self._tickets or request.replies > request.deliveries:
            words = f"{what} is answered {request.replies} times, but came {request.deliveries} times"
            yield ONE_ANSWER, words
        if reply.status != CAUSES.get(reply.cause, OK) or (reply.output is None) != (reply.status != OK):
            words = f"{what} ends as {reply.status}, cause {reply.cause!r}, output {reply.output}"
            yield ONE_ANSWER, words
        if reply.status == OK and not request.dispatches:
            yield ONE_ANSWER, f"{what} is answered ok, but no worker has run it"
        self._tickets.add(call.ticket)
        self.answered += 1
        self.answers[reply.cause or OK] = self.answers.get(reply.cause or OK, 0) + 1

    def _dispatch(self, now_s: float, dispatch: Dispatch) -> Iterator[RuleBroken]:
        worker = self._workers.get(dispatch.worker_id)
        what = f"batch {dispatch.batch_id} for {dispatch.worker_id}"
        if worker is None:
            yield CREDIT, f"{what}, which is not there"
            return
        worker.held[dispatch.batch_id] = []
        if len(worker.held) > worker.credits or not 1 <= len(dispatch.calls) <= worker.max_batch:
            words = f"{what} of {len(dispatch.calls)} is its number {len(worker.held)}; it may hold {worker.credits}"
            yield CREDIT, f"{words} of {worker.max_batch}"
        for call in dispatch.calls:
            key = (call.connection, call.request_id)
            request = self._requests.get(key)
            if request is None:
                yield ONE_ANSWER, f"{what} holds {key}, which was never accepted"
                continue
            if now_s >= request.deadline_s:
                late_ms = (now_s - request.deadline_s) * 1000
                yield EXPIRED_NEVER_RUNS, f"{what} holds {key}, {late_ms:.3f} ms late"
            if request.model != worker.model:
                yield ITS_MODEL, f"{what} of {worker.model} holds {key} of {request.model}"
            if request.replies >= request.deliveries:
                yield ONE_ANSWER, f"{what} holds {key}, which was answered"
            request.dispatches += 1
            request.workers.add(dispatch.worker_id)
            worker.held[dispatch.batch_id].append(key)
            self.dispatched += 1

    def overdue(self, now_s: float) -> Iterator[RuleBroken]:
        """The core has done what is due: whose answer is missing."""
        while self._due and self._due[0][0] < now_s:
            due_s, key = heapq.heappop(self._due)
            request = self._requests[key]
            if request.replies:
                continue
            if due_s < request.deadline_s + request.grace_s:
                heapq.heappush(self._due, (request.deadline_s + request.grace_s + 2 * ROUNDING_S, key))
                continue
            patience_s = due_s if due_s > request.deadline_s + ANSWERED_WITHIN_S else 0.0
            if not request.workers or patience_s:
                where = f"held by {', '.join(request.workers)}" if request.workers else "waits"
                words = f"{key} is {where} and has no answer {now_s - request.deadline_s:.3f} s after its deadline"
                yield ONE_ANSWER, words
                continue
            heapq.heappush(self._due, (request.deadline_s + ANSWERED_WITHIN_S + 2 * ROUNDING_S, key))

    def forget_answered(self, before_s: float) -> None:
        """Requests that were answered long ago need no memory; a duplicate does not travel for so long."""
        for key in [
            k for k, r in self._requests.items() if r.replies and r.deadline_s < before_s and not r.workers
        ]:
            del self._requests[key]
        self._due = [(due_s, key) for due_s, key in self._due if key in self._requests]
        heapq.heapify(self._due)
