"""The server's decisions in one place: events and a time go in, what to send comes out. No socket, no clock, no thread.

The gateway runs it over ZeroMQ; a simulator runs the same object under its own clock. What may call, and which replica
a call belongs to, is decided here; what happens to an accepted call, in `dispatcher.py`.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from secrets import token_hex
from typing import Any

from rosa_contract.config.factory import Factory
from rosa_contract.config.tasks import GOAL_COUPLED
from rosa_contract.wire import messages as m
from rosa_server.plan.admission import AdmissionControl, Admitted
from rosa_server.plan.placement import Placement, replica_name
from rosa_server.serving.core.dispatch.dispatcher import Dispatcher
from rosa_server.serving.core.dispatch.lane import RequestQueue
from rosa_server.serving.core.dispatch.rerouting import Rerouting
from rosa_server.serving.core.queueing.actions import Action, Kill, Note, Say, Visit
from rosa_server.serving.core.queueing.ledger import Ledger
from rosa_server.serving.core.queueing.lengths import TaskLengths
from rosa_server.serving.core.queueing.order import Order, Ranking, RemainingWork, Turnover
from rosa_server.serving.core.queueing.orders import order_of
from rosa_server.serving.core.rates.control import WINDOW_S, DecodeBudget
from rosa_server.serving.core.sessions.router import Failover, Router
from rosa_server.serving.core.sessions.session import (
    Session,
    Sessions,
    largest_request,
    misfit,
    observation_of,
    progress_of,
    request_fields,
)
from rosa_server.serving.core.sessions.slots import Slots
from rosa_server.serving.core.workers.epochs import OLD_EPOCH, Epochs, same
from rosa_server.serving.core.workers.pool import WorkerPool
from rosa_server.serving.core.workers.shadowing import Shadow
from rosa_server.serving.core.workers.sharing import sharing

SWEEP_EVERY_S = 0.5
REPORT_EVERY_S = 1.0  # how often a health report is made, however often it is asked for
MAX_VISITS = 4096  # of robots, between two looks of the gateway
MAX_LISTED = 64  # names of robots in one


class ServingCore:
    """Everything between a robot's message and a worker's, for one gateway."""

    def __init__(
        self,
        factory: Factory,
        placement: Placement | None = None,
        admission: AdmissionControl | None = None,
        new_token: Callable[[], str] = token_hex,
        make_slots: Callable[[Placement, AdmissionControl, Failover], Slots] = Slots,
    ) -> None:
        """`placement`: where a schedule puts models and robots; none: every model's workers serve every robot."""
        self.router = Router(factory, placement, admission, make_slots)
        self.sessions = Sessions(self.router, new_token, factory.gateway.status_hz)
        self.visits: deque[Visit] = deque(maxlen=MAX_VISITS)  # since somebody took them
        self.lengths, self.turnover = TaskLengths(), Turnover()  # of the tasks that have ended here
        self._dispatcher = Dispatcher(
            self.router.placement.replicas.values(),
            factory.gateway.queue_per_model,
            Ranking(order_of(factory.gateway, self.lengths, self.turnover), self.lengths, self.turnover),
        )
        self._factory = factory
        self._out: list[Action] = []
        self._rerouting = Rerouting(self.router, self.sessions, self._dispatcher, self._send)
        self._decoding = DecodeBudget()
        self._epochs = Epochs(self.router.placement)
        self._sweep_s = self._window_s = 0.0
        self._next_report_s = float("-inf")
        self._report = m.HealthReport(False, {}, {}, [])

    def rank_by(self, order: Order) -> None:
        """Take this policy instead of the factory file's; for experiments, before the first call."""
        self._dispatcher.ranking.order = order

    @property
    def pool(self) -> WorkerPool:
        return self._dispatcher.pool

    @property
    def ledger(self) -> Ledger:
        return self._dispatcher.ledger

    @property
    def queues(self) -> dict[str, RequestQueue]:
        """The waiting calls by replica, or by pool."""
        return {name: lane.queue for name, lane in self._dispatcher.lanes.items()}

    def actions(self) -> list[Action]:
        """What has to be sent since the last call, in order."""
        decided = self._dispatcher.actions()
        if not self._out:
            return decided
        out, self._out = self._out, []
        return out + decided

    def _do(self, *actions: Action) -> None:
        self._send(actions)

    def _send(self, actions: Iterable[Action]) -> None:
        """Queue these actions behind all that the dispatcher has decided so far."""
        self._out += self._dispatcher.actions()
        self._out += actions

    # -- robots ----------------------------------------------------------------------------------------------------

    def on_robot(
        self,
        now_s: float,
        connection: bytes,
        message: m.Hello | m.Ready | m.Cancel | m.TaskEnds | m.Bye | m.HealthQuery,
        proven: bool = False,
    ) -> None:
        """Everything that a robot says except requests. `proven`: its key is that of the name it says."""
        if isinstance(message, m.HealthQuery):
            if now_s >= self._next_report_s:
                self._next_report_s, self._report = now_s + REPORT_EVERY_S, self.health()
            self._do(Say(connection, self._report))
        elif isinstance(message, m.Ready):
            self._ask(now_s, connection, message.component)
        elif isinstance(message, m.Cancel):
            if self.sessions.heard(connection, now_s) is None:
                self._refuse_stranger(connection)
            else:
                self._dispatcher.cancel(now_s, connection, message.request_id)
        elif isinstance(message, m.TaskEnds):
            if self.sessions.heard(connection, now_s) is None:
                self._refuse_stranger(connection)
            else:
                self._dispatcher.task_ends(now_s, connection, message)
        elif isinstance(message, m.Bye):
            self._forget(now_s, self._on(connection), "the robot said bye", bye=True)
        elif self._dispatcher.draining:
            self._do(Say(connection, m.Refused("not_ready", "the server is shutting down")))
        else:
            self._greet(now_s, connection, message, proven)

    def _ask(self, now_s: float, connection: bytes, component: str) -> None:
        """A robot would call a component before its turn."""
        session = self.sessions.heard(connection, now_s)
        if session is None:
            self._refuse_stranger(connection)
        elif component in self.router.permits_of(session.routes):
            queue = self.router.failover.queue_of(session.routes[component])
            rate_hz = self.router.rates_of(session.task).get(component, 0.0)
            slo_s = self._factory.tasks[session.task].components[component].slo_ms / 1000
            self._dispatcher.ask(now_s, queue, (connection, component), rate_hz, slo_s)

    def _refuse_stranger(self, connection: bytes) -> None:
        self._do(Say(connection, m.Refused("hello_required", "this connection is not known; say hello")))

    def on_request(
        self, now_s: float, connection: bytes, header: Mapping[str, Any], frames: Sequence[Any]
    ) -> None:
        """A component call. Raises `CodecError` for a header that cannot even be answered."""
        session = self.sessions.heard(connection, now_s)
        request_id, component, budget_ms = request_fields(header)
        observation, progress = observation_of(header), progress_of(header)
        if session is None:
            self._refuse_stranger(connection)
            return
        last = session.newest.get(component)
        if last is not None and last[0] == request_id and self.ledger.is_open(last[1]):
            return  # delivered twice: as a fresher request it would replace itself
        model = session.models.get(component, "")
        route = session.routes.get(component)
        queue = None if route is None else self.router.failover.queue_of(route)
        call = self.ledger.open(
            connection, session.robot_id, component, model, request_id, now_s, budget_ms, frames, queue
        )
        if not model:
            known = ", ".join(session.models)
            words = f"task {session.task} has no component {component!r}; it has {known}"
            self._dispatcher.end(now_s, call, "unknown_component", words)
            return
        session.newest[component] = (request_id, call.ticket)
        call.slo_s = self._factory.tasks[session.task].components[component].slo_ms / 1000
        if observation is not None:
            call.observation = f"{session.number}:{observation}"
        call.pace, pace = self._paces(session)
        placement, rates_hz = self.router.placement, self.router.rates_of(session.task)
        permit = self._dispatcher.permit_of(now_s, call, placement.adaptive)
        if permit is not None:
            session.meter.permitted(now_s, component, rates_hz, pace)
        else:
            call.over_rate = session.meter.over(now_s, component, rates_hz, pace, placement.catch_up)
        call.over_rate |= self._decoding.over(now_s, session.robot_id)
        wrong = misfit(header, frames, self.router.needs_of(model))
        if wrong is not None:
            self._dispatcher.end(now_s, call, *wrong)
        elif self._dispatcher.draining:
            self._dispatcher.end(now_s, call, "shutting_down", "the server is shutting down")
        else:
            self._dispatcher.arrive(now_s, call, session.task, progress)

    def on_report(self, now_s: float, connection: bytes) -> Session | None:
        """A robot says how it is, or what it did with a decision. None: it has to say hello first."""
        session = self.sessions.heard(connection, now_s)
        if session is None:
            self._refuse_stranger(connection)
        else:
            session.reports = True
        return session

    def on_gone(self, now_s: float, connection: bytes) -> None:
        """A connection has ended without a bye, or was cut off. Its robot's place is kept as for a silent one.

        Its calls are not: no answer can reach it, and it comes back on another connection.
        """
        self.sessions.gone(connection)
        self._dispatcher.leave(now_s, connection, "its connection ended")

    def expel(self, now_s: float, connection: bytes, why: str) -> None:
        """This connection's robot may not call any more."""
        self._forget(now_s, self._on(connection), why)

    def remove(self, now_s: float, robot_id: str, words: str) -> None:
        """A person takes a robot out: its calls end, its slot is free, and it is refused with these words."""
        session = self.sessions.of_robot(robot_id)
        self.sessions.removed[robot_id] = words
        if session is not None:
            if not session.gone:
                self._do(Say(session.connection, m.Refused("removed", words)))
            self._forget(now_s, [session], words)

    def add_slot(self, now_s: float, task: str, dry_run: bool) -> Admitted | m.Refused:
        """One more slot for a task, or what stands in the way. Raises `ValueError` without a schedule."""
        answer = self.router.add_slot(task, dry_run)
        if isinstance(answer, Admitted) and not dry_run:
            self._rerouting.placement_changed(now_s)
        return answer

    def adopt(
        self,
        now_s: float,
        placement: Placement,
        admission: AdmissionControl,
        planned: Mapping[str, int] | None = None,
    ) -> None:
        """Another placement from now on, in a later epoch; workers of replicas that it lacks, or that are others in it,
        are ended. `planned`: the slots that each task keeps; none: all that it has. Raises `ValueError` where it lacks
        a slot that a robot has.
        """
        had, has = self.router.placement.replicas, placement.replicas
        for worker in [one for one in self.pool if not same(had.get(one.replica), has.get(one.replica))]:
            self._do(Kill(worker.worker_id, "its replica is not in the new schedule"))
            self.on_lost(now_s, worker.worker_id, "its replica is not in the new schedule")
        before = self.router.placement
        placement = replace(placement, epoch=max(placement.epoch, before.epoch + 1))
        moves = self.router.adopt(placement, admission, planned)
        self._epochs.adopted(before, placement)
        self._rerouting.adopted(now_s, moves)

    def epoch_of(self, replica: str) -> int:
        """The number of the schedule since which a replica has been as it is."""
        return self._epochs.since(replica)

    def _on(self, connection: bytes) -> list[Session]:
        session = self.sessions.get(connection)
        return [] if session is None else [session]

    def robot_on(self, connection: bytes) -> tuple[str, int] | None:
        """The robot that was welcomed on a connection, and the bytes of the largest request of its models."""
        session = self.sessions.get(connection)
        if session is None:
            return None
        needs = (self.router.needs_of(model) for model in set(session.models.values()))
        return session.robot_id, largest_request(one for one in needs if one is not None)

    def refuse(self, connection: bytes, refusal: m.Refused) -> None:
        """Tell a robot that its message was not accepted."""
        self._do(Say(connection, refusal))

    def _greet(self, now_s: float, connection: bytes, hello: m.Hello, proven: bool) -> None:
        greeting = self.sessions.hello(connection, hello, now_s, proven)
        for session in greeting.left:
            self._dispatcher.leave(now_s, session.connection, "the robot said hello again")
            self.visits.append(Visit("robot_left", session.robot_id, session.task, "", "it said hello again"))
        if greeting.session is not None:
            one = greeting.session
            self.visits.append(Visit("robot_joined", one.robot_id, one.task, one.slot, ""))
        if greeting.admitted is not None:
            fields = {"robot": hello.robot_id, "slot": greeting.admitted.slot}
            self._do(Note("robot_admitted", {**fields, "reason": greeting.admitted.reason}))
        self._do(Say(connection, greeting.answer))
        if greeting.placement_changed:
            self._rerouting.placement_changed(now_s)
        elif greeting.session is not None or greeting.left:
            self._rerouting.count_callers()

    def _forget(self, now_s: float, sessions: Sequence[Session], why: str, bye: bool = False) -> None:
        """Those that leave together are all gone before the others are told what that changes."""
        placement_changed = False
        for session in sessions:
            placement_changed |= self.sessions.leave(session, bye)
            self.visits.append(Visit("robot_left", session.robot_id, session.task, session.slot, why))
            if not session.gone:
                self._dispatcher.leave(now_s, session.connection, why)
        self._rerouting.count_callers()
        if placement_changed:
            self._rerouting.placement_changed(now_s)

    # -- workers ---------------------------------------------------------------------------------------------------

    def on_ready(self, now_s: float, ready: m.WorkerReady) -> None:
        """A worker has warmed up. It is ended if it belongs to no replica of the placement, or was started for an older
        schedule than its replica."""
        replica = self.router.placement.replica_of(ready.worker_id, ready.model)
        if replica is None:
            self._do(Kill(ready.worker_id, f"serves {ready.model}, which has no place in this factory"))
            return
        if ready.epoch < (since := self._epochs.required(ready.worker_id)):
            self._refuse_old(ready.worker_id, "ready", ready.epoch, since)
            self._do(
                Kill(ready.worker_id, f"{OLD_EPOCH}: started in epoch {ready.epoch}, now {since} counts")
            )
            return
        if self.pool.get(ready.worker_id) is not None:
            self.on_lost(now_s, ready.worker_id, "it started again")
        model = self._factory.models.get(ready.model)
        cap = model.max_batch if model is not None and model.max_batch is not None else ready.max_batch
        placed = self.router.placement.replicas[replica]
        queue = self.router.failover.feeds_from(replica)
        together = min(placed.at_once or 1, ready.at_once)
        shadow = self._dispatcher.shadows.get(ready.worker_id)
        worker = self.pool.add(
            ready,
            replica,
            queue,
            min(cap, ready.max_batch),
            together,
            placed.link_ms / 1000,
            self._dispatcher.gpu_of(placed) if shadow is None else None,
            shadow is not None,
        )
        if shadow is not None:
            shadow.ready = ready
            return
        planned = placed.batch
        if planned is not None and worker.max_batch < planned:
            fields = {"worker": worker.worker_id, "planned": planned, "takes": worker.max_batch}
            self._do(Note("batch_below_plan", fields))
        self._rerouting.streams_moved(now_s, self.router.warm(replica, ready), f"{replica} is warm")
        if self.router.trim():  # slots of robots that left while this replica was down
            self._rerouting.placement_changed(now_s)
        self._dispatcher.lanes[worker.queue].warm(now_s, worker, ready.batch_sizes)

    def on_executed(self, now_s: float, worker_id: str, done: m.Executed) -> None:
        """A batch came back. What a worker of an older schedule says of it does not count."""
        worker = self.pool.get(worker_id)
        since = worker.epoch if worker is not None else self._epochs.required(worker_id)
        if done.epoch < since:
            self._refuse_old(worker_id, "answer", done.epoch, since)
            return
        batch = worker.batches.get(done.batch_id) if worker is not None else None
        if not self._dispatcher.executed(now_s, worker_id, done):
            self.on_protocol_error(
                now_s, worker_id, f"answered batch {done.batch_id}, which it was not given"
            )
            return
        if batch is None or batch.copies:
            return
        for call, decode_ms in zip(batch.calls, done.decode_ms, strict=False):
            if decode_ms and self._decoding.charge(now_s, call.robot_id, decode_ms / 1000):
                self._do(Note("decoding_over_share", {"robot": call.robot_id, "model": call.model}))

    def _refuse_old(self, worker_id: str, what: str, epoch: int, expected: int) -> None:
        """Counted and logged; a call that it is about stays with whoever holds it now."""
        self._do(Note(OLD_EPOCH, {"worker": worker_id, "what": what, "epoch": epoch, "expected": expected}))

    def on_protocol_error(self, now_s: float, worker_id: str, why: str) -> None:
        """A worker broke the protocol: it cannot be trusted with another batch."""
        self._do(Kill(worker_id, why))
        self.on_lost(now_s, worker_id, why)

    def retire(self, now_s: float, worker_id: str, why: str) -> None:
        """A warm worker gets nothing more to do. Its replica's streams move to a standby if it was the last one."""
        worker = self.pool.get(worker_id)
        if worker is None or worker.retired:
            return
        self.pool.retire(worker)
        if not self.pool.serves(worker.replica):
            moves = self.router.lost(worker.replica)
            self._rerouting.streams_moved(now_s, moves, f"{worker.replica} retires: {why}")
        self._dispatcher.lanes[worker.queue].wake(now_s)

    def shadow(self, worker_id: str, model: str, share: float) -> Shadow:
        """A worker that will get warm is given nothing but copies of this share of the robots' calls."""
        made = self._dispatcher.shadows[worker_id] = Shadow(worker_id, model, share)
        return made

    def unshadow(self, worker_id: str) -> None:
        """No more copies for this worker, which is about to end."""
        self._dispatcher.shadows.pop(worker_id, None)

    def enlist(self, now_s: float, worker_id: str) -> bool:
        """A worker in the shadow takes calls like every other one from now on. False while it still runs copies, of
        which it gets no more."""
        shadow, worker = self._dispatcher.shadows[worker_id], self.pool.get(worker_id)
        shadow.closed = True
        if worker is not None and worker.batches:
            return False
        self.unshadow(worker_id)
        if worker is not None and shadow.ready is not None:
            self.pool.remove(worker_id)
            self.on_ready(now_s, shadow.ready)
        return True

    def on_lost(self, now_s: float, worker_id: str, why: str) -> None:
        """A worker is gone. When a replica has none left, its streams move to a standby, if the schedule has one."""
        worker = self.pool.remove(worker_id)
        # A worker that never warmed up is in no pool, but its replica has failed as well.
        replica = worker.replica if worker is not None else replica_name(worker_id)
        if replica in self.router.placement.replicas and not self.pool.serves(replica):
            self._rerouting.streams_moved(now_s, self.router.lost(replica), f"{replica} failed: {why}")
        if worker is not None:
            self._dispatcher.recover(now_s, worker, why)

    # -- time ------------------------------------------------------------------------------------------------------

    def tick(self, now_s: float) -> float:
        """Feed the workers and do what is due; call it after every round of events.

        Returns the time of the next tick at the latest, in seconds.
        """
        if now_s >= self._sweep_s:
            self._sweep(now_s)
            self._sweep_s = now_s + SWEEP_EVERY_S
        if now_s >= self._window_s:
            self._window_s = now_s + WINDOW_S
            self._dispatcher.window(now_s, self._planned_hz())
        return min(self._sweep_s, self._window_s, self._dispatcher.feed(now_s))

    def _planned_hz(self) -> dict[str, float]:
        """Queue -> calls per second of the robots that are here, at their planned rates."""
        found: dict[str, float] = defaultdict(float)
        for session in self.sessions:
            for component, rate_hz in self.router.rates_of(session.task).items():
                found[self.router.failover.queue_of(session.routes[component])] += rate_hz
        return found

    def _paces(self, session: Session) -> tuple[float, float]:
        """What a robot is told with an answer, and what it is held to: as many times its planned rates as the fullest
        of its queues allows. Without a schedule nothing is said."""
        if not self.router.placement.adaptive or not self.router.placement.rates_hz:
            return 0.0, 1.0
        queues = (self.router.failover.queue_of(r) for c, r in session.routes.items() if c in GOAL_COUPLED)
        rates = [self._dispatcher.lanes[queue].rates for queue in queues]
        return min(one.pace for one in rates), min(one.tolerated for one in rates)

    def _sweep(self, now_s: float) -> None:
        """Forget silent robots and end workers that hang."""
        self._decoding.sweep(now_s)
        if silent := self.sessions.silent(now_s):
            self._forget(now_s, silent, "the robot fell silent")
        for worker in self._dispatcher.hung(now_s):
            self._do(Kill(worker.worker_id, "its batch hangs"))
            self.on_lost(now_s, worker.worker_id, "its batch hung")

    def drain(self, now_s: float) -> None:
        """Accept nothing more. Waiting calls are still run, if there is a worker."""
        self._dispatcher.draining = True

    def give_up(self, now_s: float, why: str) -> None:
        """Answer every call that is still open: the end of draining."""
        self._dispatcher.give_up(now_s, why)

    def order_state(self) -> tuple[str, float, float, int]:
        """The order of the queue, the share of the fleet that works without a pause, how much age counts, and how many
        ended tasks are remembered."""
        order = self._dispatcher.ranking.order
        weight = order.age_weight if isinstance(order, RemainingWork) else 0.0
        return self._factory.gateway.order, self.turnover.closed, weight, len(self.lengths)

    def warm_workers(self) -> dict[str, int]:
        """How many warm workers each replica has, also where it has none."""
        count = Counter(worker.replica for worker in self.pool if not worker.shadows)
        return {replica: count[replica] for replica in self.router.placement.replicas}

    def health(self) -> m.HealthReport:
        workers = {
            w.worker_id: f"{w.model}: {'busy' if w.batches else 'idle'}{sharing(w.counts)}" for w in self.pool
        }
        waiting = {name: len(queue) for name, queue in self.queues.items()}
        ready = self.router.ready and not self._dispatcher.draining
        robots = self.sessions.robots
        return m.HealthReport(ready, workers, waiting, robots[:MAX_LISTED], len(robots))
