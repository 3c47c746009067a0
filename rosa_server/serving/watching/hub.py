"""What a gateway tells those who watch it. Pure: the gateway hands in what happens and a time, and sends what is due.

Everything that counts, counts up: whoever watches takes differences, so nothing is lost with a dropped message. Work is
cut into slices, so that no step of the gateway carries the news of a whole fleet.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import inf
from typing import Any

from rosa_contract.config.factory import Factory
from rosa_contract.config.tasks import SYSTEM1
from rosa_contract.wire.messages import FAILED, OK, SCHEMA_VERSION
from rosa_contract.wire.packing import pack
from rosa_contract.wire.status import OpenAlert
from rosa_server.serving.core.dispatch.core import ServingCore
from rosa_server.serving.core.queueing.actions import Reply
from rosa_server.serving.core.sessions.slots import task_of
from rosa_server.serving.core.workers.comparing import WorkerTally
from rosa_server.serving.core.workers.worker_state import WorkerState

VERSION = SCHEMA_VERSION
STATE, ABOUT, ROBOTS, STATUS, EVENTS, DECIDED, ORDERED, GOING = (
    b"state",
    b"about",
    b"robots",
    b"status",
    b"events",
    b"decided",
    b"ordered",
    b"going",
)

STATE_EVERY_S = 0.5
ABOUT_EVERY_S = 5.0
ROUND_EVERY_S = 1.0  # in which every robot is told of once
SLICE = 64  # robots in one message
FLUSH_EVERY_S = 0.05
MAX_REPORTS = 512  # and events, in one message
MAX_REPORT_BYTES = 4 << 20  # of the reports in one message: robots may make theirs long
MAX_PENDING = 4096  # reports and events that wait; beyond it the earliest are dropped, and counted

Message = list[bytes]  # topic, payloads


@dataclass(slots=True)
class Answers:
    """The calls of one component of one robot, as this gateway has answered them."""

    deadline_ms: float = 0.0  # of the last one, as the robot has set it
    answered: int = 0
    in_time: int = 0
    last_ms: float = 0.0  # what was left of the deadline when the last answer left
    worst_ms: float = inf  # the least of it since it was last told


@dataclass(slots=True)
class Work:
    """What the workers of one replica have done."""

    batches: int = 0
    calls: int = 0
    busy_ms: float = 0.0  # their run time together; calls that ran beside each other count their share
    filled: int = 0  # places of these batches that were taken, of `room` in all
    room: int = 0


@dataclass(slots=True)
class Hub:
    """One gateway's news."""

    factory: Factory
    about: Mapping[str, Any]  # what the server says of itself and of its schedule
    actions: int = 0  # System 1 answers that left before their deadline
    tasks: Counter[str] = field(default_factory=Counter)  # that have ended, by outcome
    statuses: Counter[str] = field(default_factory=Counter)  # of answers
    refused: Counter[str] = field(default_factory=Counter)  # by cause
    dropped: int = 0  # reports and events that nobody could be told of
    watched: bool = False
    at_work: Callable[[float], Mapping[str, Any]] = (
        lambda now_s: {}
    )  # time -> the operations at work, as it is told
    compared: dict[str, WorkerTally] = field(default_factory=dict)  # workers whose answers are counted apart
    alerts: dict[str, OpenAlert] = field(default_factory=dict)  # robot -> what it waits for a person with
    _of: dict[str, dict[str, Answers]] = field(default_factory=dict)  # robot -> component
    _work: dict[str, Work] = field(default_factory=dict)  # replica
    _reports: deque[tuple[str, int, bytes]] = field(default_factory=deque)
    _events: deque[dict[str, Any]] = field(default_factory=deque)
    _later: deque[tuple[str, int, bytes]] = field(
        default_factory=deque
    )  # reports that came after these events
    _round: Iterator[Any] | None = None
    _state_s: float = -inf
    _about_s: float = -inf
    _round_s: float = -inf
    _flush_s: float = -inf

    # -- what happens ---------------------------------------------------------------------------------------------

    def answered(self, answer: Reply) -> None:
        call = answer.call
        self.statuses[answer.status] += 1
        if self.compared and (tally := self.compared.get(call.worker_id)) is not None:
            failed = answer.status == FAILED
            tally.count(failed, not failed and answer.ended_s > call.due_s, answer.inference_ms)
        if not call.model:
            return  # of a component that does not exist: robots must not make up names
        if answer.cause == "robot_left":
            return  # it reached nobody, and what was known of its robot may be forgotten already
        of = self._of.get(call.robot_id)
        if of is None:
            of = self._of[call.robot_id] = {}
        one = of.get(call.component)
        if one is None:
            one = of[call.component] = Answers()
        left_ms = (call.due_s - answer.ended_s) * 1000
        one.deadline_ms = (call.deadline_s - call.arrived_s) * 1000
        one.answered += 1
        one.last_ms = left_ms
        one.worst_ms = min(one.worst_ms, left_ms)
        if answer.status == OK and left_ms >= 0:
            one.in_time += 1
            if call.component == SYSTEM1:
                self.actions += 1

    def ran(self, worker: WorkerState, calls: int, run_ms: float) -> None:
        """A worker has ended a batch of `calls` calls."""
        work = self._work.get(worker.replica)
        if work is None:
            work = self._work[worker.replica] = Work()
        work.batches += 1
        work.calls += calls
        if worker.at_once > 1:  # they run beside each other
            work.busy_ms += run_ms / worker.at_once
            work.filled += len(worker.batches) + 1  # the one that has ended was among them
            work.room += worker.at_once
        else:
            work.busy_ms += run_ms
            work.filled += calls
            work.room += worker.max_batch

    def reported(self, robot: str, frame: bytes, alert: OpenAlert | None, held: int) -> None:
        """A robot has said how it is. `held`: what the report has, as `held_in` says."""
        if alert is None:
            self.alerts.pop(robot, None)
        else:
            self.alerts[robot] = alert
        if self.watched:
            waiting = self._later if self._events else self._reports
            self._bounded(waiting)
            waiting.append((robot, held, frame))

    def happened(self, now_s: float, event: str, **fields: Any) -> None:
        """Something of which those who watch are told as a line."""
        if self.watched:
            self._bounded(self._events)
            self._events.append({"event": event, "at_s": now_s, **fields})

    def left(self, robot: str) -> None:
        """A robot has gone; its figures go with it."""
        self._of.pop(robot, None)
        self.alerts.pop(robot, None)
        if any(one[0] == robot for one in self._later):  # it has said this before it left
            self._reports.extend(one for one in self._later if one[0] == robot)
            self._later = deque(one for one in self._later if one[0] != robot)

    def _bounded(self, waiting: deque[Any]) -> None:
        if len(waiting) >= MAX_PENDING:
            waiting.popleft()
            self.dropped += 1

    # -- what is due ----------------------------------------------------------------------------------------------

    def margins(self) -> Iterator[tuple[str, str, float]]:
        """(robot, component, share of the deadline that was left when its last answer left)."""
        for robot, of in self._of.items():
            for component, one in of.items():
                if one.deadline_ms > 0:
                    yield robot, component, one.last_ms / one.deadline_ms

    def watch(self, watched: bool) -> None:
        """Somebody more watches from now on, or nobody does any more."""
        if watched:  # whoever is new hears everything in the next steps, and the others hear it again
            self._about_s = self._state_s = self._round_s = -inf
        else:
            for waiting in (self._reports, self._events, self._later):
                waiting.clear()
            self._round = None
        self.watched = watched

    def due(self, now_s: float, wall_s: float, core: ServingCore) -> list[Message]:
        """The messages to send now. `wall_s`: s since 1970, for people."""
        if not self.watched:
            return []
        out: list[Message] = []
        if now_s - self._about_s >= ABOUT_EVERY_S:
            self._about_s = now_s
            out.append([ABOUT, pack(self._described(core))])
        if now_s - self._state_s >= STATE_EVERY_S:
            self._state_s = now_s
            out.append([STATE, pack(self._state(now_s, wall_s, core))])
        if self._round is None and now_s - self._round_s >= ROUND_EVERY_S:
            self._round_s, self._round = now_s, iter(list(core.sessions))
        if self._round is not None:
            some = list(islice(self._round, SLICE))
            here = [one for one in some if core.sessions.of_robot(one.robot_id) is one]  # not left meanwhile
            out.append(
                [
                    ROBOTS,
                    pack(
                        {
                            "v": VERSION,
                            "at_s": now_s,
                            "robots": [self._robot(now_s, one, core) for one in here],
                        }
                    ),
                ]
            )
            if len(some) < SLICE:
                self._round = None
        if now_s - self._flush_s >= FLUSH_EVERY_S:
            self._flush_s = now_s
            out += self._pending(now_s)
        return out

    def _pending(self, now_s: float) -> list[Message]:
        out: list[Message] = []
        while self._reports and len(out) < 4:
            some, size = list[tuple[str, int, bytes]](), 0
            while self._reports and len(some) < MAX_REPORTS and size < MAX_REPORT_BYTES:
                some.append(self._reports.popleft())
                size += len(some[-1][2])
            out.append([STATUS, pack({"v": VERSION, "reports": some})])
        if self._reports:
            return out
        while self._events:
            some_events = [self._events.popleft() for _ in range(min(MAX_REPORTS, len(self._events)))]
            out.append([EVENTS, pack({"v": VERSION, "at_s": now_s, "events": some_events})])
        self._reports, self._later = self._later, self._reports
        return out

    def _described(self, core: ServingCore) -> dict[str, Any]:
        tasks = {}
        for name, task in self.factory.tasks.items():
            rates = core.router.rates_of(name)
            tasks[name] = {
                component: [one.model, one.slo_ms, rates.get(component, 0.0)]
                for component, one in task.components.items()
            }
        slots = Counter(task_of(slot) for slot in core.router.placement.routes or ())
        return {"v": VERSION, "tasks": tasks, "slots": dict(slots), **self.about}

    def _state(self, now_s: float, wall_s: float, core: ServingCore) -> dict[str, Any]:
        return {
            "v": VERSION,
            "at_s": now_s,
            "wall_s": wall_s,
            "ready": core.health().ready,
            "robots": len(core.sessions.robots),
            "actions": self.actions,
            "tasks": dict(self.tasks),
            "answers": dict(self.statuses),
            "refused": dict(self.refused),
            "dropped": self.dropped,
            "epoch": core.router.placement.epoch,
            "servers": self._servers(now_s, core),
            "at_work": self.at_work(now_s),
        }

    def _servers(self, now_s: float, core: ServingCore) -> list[dict[str, Any]]:
        warm, queues = core.warm_workers(), core.queues
        found = []
        for replica in core.router.placement.replicas.values():
            work, queue = self._work.get(replica.id, Work()), queues[replica.queue]
            oldest_s = min((call.since_s for call in queue.waiting()), default=now_s)
            found.append(
                {
                    "id": replica.id,
                    "model": replica.model,
                    "queue": replica.queue,
                    "standby": replica.standby,
                    "epoch": core.epoch_of(replica.id),
                    "workers": warm.get(replica.id, 0),
                    "wanted": replica.workers,
                    "streams": core.sessions.callers(replica.id),
                    "waiting": len(queue),
                    "oldest_ms": max(0.0, now_s - oldest_s) * 1000,
                    "batches": work.batches,
                    "calls": work.calls,
                    "filled": work.filled,
                    "room": work.room,
                    "busy_ms": work.busy_ms,
                }
            )
        return found

    def _robot(self, now_s: float, session: Any, core: ServingCore) -> list[Any]:
        told: Sequence[Any] = []
        of = self._of.get(session.robot_id)
        if of:
            told = [
                [
                    name,
                    a.deadline_ms,
                    a.answered,
                    a.in_time,
                    a.last_ms,
                    a.last_ms if a.worst_ms is inf else a.worst_ms,
                ]
                for name, a in of.items()
            ]
            for one in of.values():
                one.worst_ms = inf
        where = {
            component: core.router.failover.queue_of(route) for component, route in session.routes.items()
        }
        heard = now_s - session.heard_s
        return [session.robot_id, session.task, session.slot, heard, session.reports, told, where]
