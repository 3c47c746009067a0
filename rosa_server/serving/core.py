"""The server's decisions in one place: events and a time go in, what to send comes out. No socket, no clock, no thread.

The gateway runs it over ZeroMQ; a simulator can run the same object under its own clock.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rosa_contract import messages as m
from rosa_contract.config import Factory
from rosa_server.serving.batcher import Batcher, BatchProfile, Run
from rosa_server.serving.check import misfit, request_fields
from rosa_server.serving.ledger import Call, Ledger
from rosa_server.serving.pool import Worker, WorkerPool
from rosa_server.serving.queue import RequestQueue
from rosa_server.serving.router import Router
from rosa_server.serving.session import Sessions

SWEEP_EVERY_S = 0.5
MAX_ATTEMPTS = 2  # a call that two workers died with is answered `failed`


@dataclass(frozen=True, slots=True)
class Say:
    """Send a message to a robot's connection."""

    connection: bytes
    message: m.ToRobot


@dataclass(frozen=True, slots=True)
class Answer:
    """The final answer to a call; `output` is the worker's frame, untouched, with status ok."""

    call: Call
    status: str
    reason: str
    ended_s: float
    inference_ms: float = 0.0
    batch_size: int = 0
    output: Any = None


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Send a batch to a worker."""

    worker_id: str
    batch_id: int
    slot: int  # no other batch that the worker holds has the same
    calls: Sequence[Call]


@dataclass(frozen=True, slots=True)
class Kill:
    """End a worker that hangs or talks nonsense; whoever started it starts another."""

    worker_id: str
    reason: str


Action = Say | Answer | Dispatch | Kill


class ServingCore:
    """Everything between a robot's message and a worker's, for one gateway."""

    def __init__(self, factory: Factory, profiles: Mapping[str, Mapping[int, float]] | None = None) -> None:
        self.router = Router(factory)
        self.sessions = Sessions(self.router)
        self.pool = WorkerPool()
        self.ledger = Ledger()
        self.queues = {model: RequestQueue(factory.gateway.queue_per_model) for model in self.router.models}
        self._factory = factory
        self._batchers = {
            name: Batcher(1, BatchProfile((profiles or {}).get(name))) for name in self.router.models
        }
        self._due_s: dict[str, float] = {}  # model -> when to look at its queue again
        self._sweep_s = 0.0
        self._draining = False
        self._out: list[Action] = []

    def actions(self) -> list[Action]:
        """What has to be sent since the last call, in order."""
        out, self._out = self._out, []
        return out

    # -- robots ----------------------------------------------------------------------------------------------------

    def on_robot(self, now_s: float, connection: bytes, message: m.Hello | m.Bye | m.HealthQuery) -> None:
        """Everything that a robot says except requests."""
        if isinstance(message, m.HealthQuery):
            self._out.append(Say(connection, self.health()))
        elif isinstance(message, m.Bye):
            self._forget(now_s, connection, "the robot said bye")
        elif self._draining:
            self._out.append(Say(connection, m.Refuse("not_ready", "the server is shutting down")))
        else:
            self._out.append(
                Say(connection, self.sessions.hello(connection, message, now_s, self.pool.ready_models))
            )

    def on_request(
        self, now_s: float, connection: bytes, header: Mapping[str, Any], frames: Sequence[Any]
    ) -> None:
        """A component call. Raises `CodecError` for a header that cannot even be answered."""
        session = self.sessions.heard(connection, now_s)
        request_id, component, budget_ms = request_fields(header)
        if session is None:
            self._out.append(
                Say(connection, m.Refuse("hello_required", "this connection is not known; say hello"))
            )
            return
        model = session.models.get(component, "")
        call = self.ledger.open(
            connection, session.robot_id, component, model, request_id, now_s, budget_ms, frames
        )
        if not model:
            known = ", ".join(session.models)
            self._end(
                now_s, call, m.INVALID, f"task {session.task} has no component {component!r}; it has {known}"
            )
            return
        reason = misfit(header, len(frames), self.router.needs_of(model))
        if reason:
            self._end(now_s, call, m.INVALID, reason)
        elif self._draining:
            self._end(now_s, call, m.UNAVAILABLE, "the server is shutting down")
        elif self._enqueue(now_s, call):
            self._batchers[model].arrived(now_s)
            self._due_s[model] = now_s

    def refuse(self, connection: bytes, refusal: m.Refuse) -> None:
        """Tell a robot that its message could not be read."""
        self._out.append(Say(connection, refusal))

    def _enqueue(self, now_s: float, call: Call) -> bool:
        queue = self.queues[call.model]
        if call.deadline_s <= now_s:
            self._end(now_s, call, m.EXPIRED, "its budget was spent on arrival")
            return False
        if queue.full_for(call.key):
            self._end(
                now_s,
                call,
                m.OVERLOADED,
                f"{len(queue)} requests wait for {call.model}, the limit of queue_per_model",
            )
            return False
        replaced = queue.put(call)
        if replaced is not None:
            self._end(now_s, replaced, m.REPLACED, f"request {call.request_id} is fresher")
        return True

    def _forget(self, now_s: float, connection: bytes, why: str) -> None:
        session = self.sessions.leave(connection)
        if session is None:
            return
        for component, model in session.models.items():
            call = self.queues[model].remove((session.robot_id, component))
            if call is not None:
                self._end(now_s, call, m.UNAVAILABLE, why)

    # -- workers ---------------------------------------------------------------------------------------------------

    def on_ready(self, now_s: float, ready: m.WorkerReady) -> None:
        """A worker has warmed up. One that hosts a model nobody asked for is ended."""
        if ready.model not in self.queues:
            self._out.append(Kill(ready.worker_id, f"hosts {ready.model}, which is no model of this factory"))
            return
        if self.pool.get(ready.worker_id) is not None:
            self.on_lost(now_s, ready.worker_id, "it started anew")
        model = self._factory.models.get(ready.model)
        cap = model.max_batch if model is not None and model.max_batch is not None else ready.max_batch
        worker = self.pool.add(ready, min(cap, ready.max_batch))
        self.router.announce(ready)
        self._batchers[ready.model].max_batch = min(other.max_batch for other in self.pool.of(worker.model))
        self._due_s[ready.model] = now_s

    def on_executed(self, now_s: float, worker_id: str, done: m.Executed) -> None:
        """A batch came back: answer each of its calls that is still open."""
        worker = self.pool.get(worker_id)
        batch = worker.batches.get(done.batch_id) if worker is not None else None
        if worker is None or batch is None or [call.ticket for call in batch.calls] != list(done.tickets):
            self.on_nonsense(now_s, worker_id, f"answered batch {done.batch_id}, which it was not given")
            return
        del worker.batches[done.batch_id]
        size = len(batch.calls)
        self._batchers[worker.model].profile.learn(size, done.inference_ms)
        for call, (status, reason), output in zip(batch.calls, done.errors, done.outputs, strict=True):
            if status:
                self._end(now_s, call, status, reason, done.inference_ms, size)
            else:
                self._end(now_s, call, m.OK, "", done.inference_ms, size, output)
        self._due_s[worker.model] = now_s

    def on_nonsense(self, now_s: float, worker_id: str, why: str) -> None:
        """A worker said what no worker says: it cannot be trusted with a batch."""
        self._out.append(Kill(worker_id, why))
        self.on_lost(now_s, worker_id, why)

    def on_lost(self, now_s: float, worker_id: str, why: str) -> None:
        """A worker is gone. What it held goes back to the queue once, if budget remains and nothing fresher waits."""
        worker = self.pool.remove(worker_id)
        if worker is None:
            return
        for batch in worker.batches.values():
            for call in batch.calls:
                if self.ledger.is_open(call):
                    self._again(now_s, call, why)
        self._due_s[worker.model] = now_s

    def _again(self, now_s: float, call: Call, why: str) -> None:
        if call.attempts >= MAX_ATTEMPTS:
            self._end(now_s, call, m.FAILED, f"{call.attempts} workers were lost with it; the last: {why}")
        elif self.queues[call.model].newer_waits(call.key):
            self._end(now_s, call, m.REPLACED, f"its worker was lost ({why}) and a fresher request waits")
        elif self._draining:
            self._end(
                now_s, call, m.UNAVAILABLE, f"its worker was lost ({why}) and the server is shutting down"
            )
        else:
            self._enqueue(now_s, call)

    # -- time ------------------------------------------------------------------------------------------------------

    def tick(self, now_s: float) -> float:
        """Feed the workers and do what is due; call it after every round of events.

        Returns the time of the next tick at the latest, in seconds.
        """
        if now_s >= self._sweep_s:
            self._sweep(now_s)
            self._sweep_s = now_s + SWEEP_EVERY_S
        for model, due_s in list(self._due_s.items()):
            if due_s <= now_s:
                self._feed(now_s, model)
        return min([self._sweep_s, *self._due_s.values()])

    def _sweep(self, now_s: float) -> None:
        """Forget silent robots and end workers whose batch never ends."""
        for session in self.sessions.silent(now_s):
            self._forget(now_s, session.connection, "the robot fell silent")
        for worker in list(self.pool):
            if any(now_s > batch.hang_s for batch in worker.batches.values()):
                self._out.append(Kill(worker.worker_id, "its batch does not end"))
                self.on_lost(now_s, worker.worker_id, "its batch did not end")

    def drain(self, now_s: float) -> None:
        """Accept nothing more. What waits is still run, if a worker is there."""
        self._draining = True

    def give_up(self, now_s: float, why: str) -> None:
        """Answer everything that is still open: the end of draining."""
        for queue in self.queues.values():
            queue.take(len(queue))
        for call in self.ledger:
            self._end(now_s, call, m.UNAVAILABLE, why)

    def health(self) -> m.HealthReport:
        workers = {w.worker_id: f"{w.model}: {'busy' if w.batches else 'idle'}" for w in self.pool}
        ready = not self._draining and self.pool.ready_models >= set(self.router.models)
        return m.HealthReport(
            ready, workers, {name: len(q) for name, q in self.queues.items()}, self.sessions.robots
        )

    def _feed(self, now_s: float, model: str) -> None:
        """Give this model's waiting calls to its workers, and note when to look again."""
        queue = self.queues[model]
        for late in queue.expire(now_s):
            if model in self.pool.ready_models:
                self._end(now_s, late, m.EXPIRED, "its budget was spent in the queue")
            else:
                self._end(now_s, late, m.UNAVAILABLE, f"no worker of {model} came within its budget")
        again_s = math.inf
        while queue:
            worker, free_s = self.pool.soonest(model, now_s)
            if worker is None or free_s is None:
                break
            if free_s > now_s:
                again_s = free_s
                break
            deadlines_s = [call.deadline_s for call in queue.in_order()]
            decision = self._batchers[model].decide(now_s, deadlines_s, self._more_may_come(model))
            if not isinstance(decision, Run):
                again_s = decision.until_s
                break
            self._dispatch(now_s, worker, queue.take(decision.count))
        if queue:
            self._due_s[model] = min(again_s, queue.next_expiry_s)
        else:
            self._due_s.pop(model, None)

    def _dispatch(self, now_s: float, worker: Worker, calls: list[Call]) -> None:
        profile = self._batchers[worker.model].profile
        batch = self.pool.give(worker, calls, now_s, profile.service_s(len(calls)) if profile.known else None)
        self._out.append(Dispatch(worker.worker_id, batch.batch_id, batch.slot, calls))

    def _more_may_come(self, model: str) -> bool:
        """Whether some connected robot has neither a waiting nor a running call for this model."""
        held = len(self.queues[model]) + sum(
            len(b.calls) for w in self.pool.of(model) for b in w.batches.values()
        )
        return self.sessions.callers(model) > held

    def _end(
        self,
        now_s: float,
        call: Call,
        status: str,
        reason: str,
        inference_ms: float = 0.0,
        batch_size: int = 0,
        output: Any = None,
    ) -> None:
        if self.ledger.close(call):
            self._out.append(Answer(call, status, reason, now_s, inference_ms, batch_size, output))
