"""The server's decisions in one place: events and a time go in, what to send comes out. No socket, no clock, no thread.

The gateway runs it over ZeroMQ; a simulator can run the same object under its own clock. Who may call, and where to,
is decided here; what becomes of an accepted call, in `dispatcher.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rosa_contract import messages as m
from rosa_contract.config import Factory
from rosa_server.serving.core.actions import Action, Kill, Note, Say
from rosa_server.serving.core.check import misfit, request_fields
from rosa_server.serving.core.dispatcher import Dispatcher
from rosa_server.serving.core.ledger import Call, Ledger
from rosa_server.serving.core.placement import AdmissionControl, Placement, replica_name
from rosa_server.serving.core.pool import WorkerPool
from rosa_server.serving.core.queue import RequestQueue
from rosa_server.serving.core.router import Router
from rosa_server.serving.core.session import Session, Sessions

SWEEP_EVERY_S = 0.5


class ServingCore:
    """Everything between a robot's message and a worker's, for one gateway."""

    def __init__(
        self, factory: Factory, placement: Placement | None = None, admission: AdmissionControl | None = None
    ) -> None:
        """`placement`: where a schedule puts models and robots; none: every model's workers serve every robot."""
        self.router = Router(factory, placement, admission)
        self.sessions = Sessions(self.router)
        self._dispatcher = Dispatcher(
            self.router.placement.replicas.values(),
            factory.gateway.queue_per_model,
            self._replica_of,
            self.sessions.callers,
        )
        self._factory = factory
        self._out = self._dispatcher.out
        self._told = {task: self.router.rates_of(task) for task in self.router.tasks}
        self._sweep_s = 0.0

    @property
    def pool(self) -> WorkerPool:
        return self._dispatcher.pool

    @property
    def ledger(self) -> Ledger:
        return self._dispatcher.ledger

    @property
    def queues(self) -> dict[str, RequestQueue]:
        """The waiting calls by replica."""
        return {name: replica.queue for name, replica in self._dispatcher.replicas.items()}

    def actions(self) -> list[Action]:
        """What has to be sent since the last call, in order."""
        out = self._out[:]
        self._out.clear()
        return out

    # -- robots ----------------------------------------------------------------------------------------------------

    def on_robot(self, now_s: float, connection: bytes, message: m.Hello | m.Bye | m.HealthQuery) -> None:
        """Everything that a robot says except requests."""
        if isinstance(message, m.HealthQuery):
            self._out.append(Say(connection, self.health()))
        elif isinstance(message, m.Bye):
            self._forget(now_s, connection, "the robot said bye")
        elif self._dispatcher.draining:
            self._out.append(Say(connection, m.Refused("not_ready", "the server is shutting down")))
        else:
            self._greet(now_s, connection, message)

    def on_request(
        self, now_s: float, connection: bytes, header: Mapping[str, Any], frames: Sequence[Any]
    ) -> None:
        """A component call. Raises `CodecError` for a header that cannot even be answered."""
        session = self.sessions.heard(connection, now_s)
        request_id, component, budget_ms = request_fields(header)
        if session is None:
            self._out.append(
                Say(connection, m.Refused("hello_required", "this connection is not known; say hello"))
            )
            return
        last = session.newest.get(component)
        if last is not None and last[0] == request_id and self.ledger.is_open(last[1]):
            return  # the link delivered it twice; as a fresher one it would replace itself
        model = session.models.get(component, "")
        call = self.ledger.open(
            connection, session.robot_id, component, model, request_id, now_s, budget_ms, frames
        )
        if not model:
            known = ", ".join(session.models)
            words = f"task {session.task} has no component {component!r}; it has {known}"
            self._dispatcher.end(now_s, call, m.INVALID, words)
            return
        session.newest[component] = (request_id, call.ticket)
        reason = misfit(header, len(frames), self.router.needs_of(model))
        if reason:
            self._dispatcher.end(now_s, call, m.INVALID, reason)
        elif self._dispatcher.draining:
            self._dispatcher.end(now_s, call, m.UNAVAILABLE, "the server is shutting down")
        else:
            self._dispatcher.accept(now_s, call)
            self._dispatcher.replicas[self.router.failover.now(session.replicas[component])].arrived(now_s)

    def refuse(self, connection: bytes, refusal: m.Refused) -> None:
        """Tell a robot that its message could not be read."""
        self._out.append(Say(connection, refusal))

    def _greet(self, now_s: float, connection: bytes, hello: m.Hello) -> None:
        greeting = self.sessions.hello(connection, hello, now_s)
        for session in greeting.left:
            self._drop(now_s, session, "the robot said hello anew")
        if greeting.admitted is not None:
            fields = {"robot": hello.robot_id, "slot": greeting.admitted.slot}
            self._out.append(Note("robot_admitted", {**fields, "reason": greeting.admitted.reason}))
        self._out.append(Say(connection, greeting.answer))
        if greeting.placement_changed:
            self._replaced(now_s)

    def _replica_of(self, call: Call) -> str | None:
        session = self.sessions.get(call.connection)
        replica = session.replicas.get(call.component) if session is not None else None
        return None if replica is None else self.router.failover.now(replica)

    def _forget(self, now_s: float, connection: bytes, why: str) -> None:
        session, placement_changed = self.sessions.leave(connection)
        if session is not None:
            self._drop(now_s, session, why)
        if placement_changed:
            self._replaced(now_s)

    def _drop(self, now_s: float, session: Session, why: str) -> None:
        """End what waits for a robot that is gone."""
        for component, replica in session.replicas.items():
            where = self.router.failover.now(replica)
            self._dispatcher.drop(now_s, where, (session.robot_id, component), why)

    # -- workers ---------------------------------------------------------------------------------------------------

    def on_ready(self, now_s: float, ready: m.WorkerReady) -> None:
        """A worker has warmed up. One that serves a model nobody asked for is ended."""
        replica = self.router.placement.replica_of(ready.worker_id, ready.model)
        if replica is None:
            self._out.append(
                Kill(ready.worker_id, f"serves {ready.model}, which has no place in this factory")
            )
            return
        if self.pool.get(ready.worker_id) is not None:
            self.on_lost(now_s, ready.worker_id, "it started anew")
        model = self._factory.models.get(ready.model)
        cap = model.max_batch if model is not None and model.max_batch is not None else ready.max_batch
        worker = self.pool.add(ready, replica, min(cap, ready.max_batch))
        planned = self.router.placement.replicas[replica].batch
        if planned is not None and worker.max_batch < planned:
            fields = {"worker": worker.worker_id, "planned": planned, "takes": worker.max_batch}
            self._out.append(Note("batch_below_plan", fields))
        self._moved(now_s, self.router.warm(replica, ready), f"{replica} is warm")
        if self.router.trim():  # who left while this replica was down is forgotten now
            self._replaced(now_s)
        self._dispatcher.replicas[replica].due_s = now_s

    def on_executed(self, now_s: float, worker_id: str, done: m.Executed) -> None:
        """A batch came back."""
        if not self._dispatcher.executed(now_s, worker_id, done):
            self.on_nonsense(now_s, worker_id, f"answered batch {done.batch_id}, which it was not given")

    def on_nonsense(self, now_s: float, worker_id: str, why: str) -> None:
        """A worker said what no worker says: it cannot be trusted with a batch."""
        self._out.append(Kill(worker_id, why))
        self.on_lost(now_s, worker_id, why)

    def on_lost(self, now_s: float, worker_id: str, why: str) -> None:
        """A worker is gone. With the last one of a replica its streams go to a standby, if the schedule has one."""
        worker = self.pool.remove(worker_id)
        replica = (
            worker.replica if worker is not None else replica_name(worker_id)
        )  # one that never warmed up is lost too
        if replica in self.router.placement.replicas and not self.pool.of(replica):
            self._moved(now_s, self.router.lost(replica), f"{replica} failed: {why}")
        if worker is not None:
            self._dispatcher.recover(now_s, worker, why)

    # -- routes that change ----------------------------------------------------------------------------------------

    def _moved(self, now_s: float, moves: Mapping[str, str], why: str) -> None:
        """Hosts have changed who runs their streams."""
        for replica, where in moves.items():
            self._out.append(Note("streams_moved", {"of": replica, "to": where, "reason": why}))
        self._rebatch()
        if moves:
            self._dispatcher.resort(now_s)

    def _replaced(self, now_s: float) -> None:
        """The placement has changed: routes, batches and rates of robots that are here may be others now."""
        self._rebatch()
        if self.sessions.rerouted():
            self._dispatcher.resort(now_s)
        rates = {task: self.router.rates_of(task) for task in self.router.tasks}
        changed = {task for task, told in self._told.items() if told != rates[task]}
        self._told = rates
        self._out += [Say(s.connection, self.sessions.welcome(s)) for s in self.sessions.of_tasks(changed)]

    def _rebatch(self) -> None:
        """Who stands in for another replica batches as planned for that one."""
        replicas = self.router.placement.replicas
        for name, replica in self._dispatcher.replicas.items():
            served = self.router.failover.served_by(name)
            replica.batch_as(replicas[served[-1] if served else name], self.pool)

    # -- time ------------------------------------------------------------------------------------------------------

    def tick(self, now_s: float) -> float:
        """Feed the workers and do what is due; call it after every round of events.

        Returns the time of the next tick at the latest, in seconds.
        """
        if now_s >= self._sweep_s:
            self._sweep(now_s)
            self._sweep_s = now_s + SWEEP_EVERY_S
        return min(self._sweep_s, self._dispatcher.feed(now_s))

    def _sweep(self, now_s: float) -> None:
        """Forget silent robots and end workers whose batch never ends."""
        for session in self.sessions.silent(now_s):
            self._forget(now_s, session.connection, "the robot fell silent")
        for worker in self._dispatcher.hung(now_s):
            self._out.append(Kill(worker.worker_id, "its batch does not end"))
            self.on_lost(now_s, worker.worker_id, "its batch did not end")

    def drain(self, now_s: float) -> None:
        """Accept nothing more. What waits is still run, if a worker is there."""
        self._dispatcher.draining = True

    def give_up(self, now_s: float, why: str) -> None:
        """Reply everything that is still open: the end of draining."""
        self._dispatcher.give_up(now_s, why)

    def health(self) -> m.HealthReport:
        workers = {w.worker_id: f"{w.model}: {'busy' if w.batches else 'idle'}" for w in self.pool}
        waiting = {name: len(queue) for name, queue in self.queues.items()}
        ready = self.router.ready and not self._dispatcher.draining
        return m.HealthReport(ready, workers, waiting, self.sessions.robots)
