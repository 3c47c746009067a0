"""The gateway's side of watching: its news go out; a person's decision goes to the robot and comes back answered."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import zmq

from rosa_contract.wire.images import EncodedImage
from rosa_contract.wire.messages import Decide, Decided
from rosa_contract.wire.status import Audit, OpenAlert
from rosa_contract.wire.watching import Answer, Asked, Look, Order, encode_answer
from rosa_server.serving.base import log
from rosa_server.serving.core.dispatch.core import ServingCore
from rosa_server.serving.core.guard.bucket import Bucket
from rosa_server.serving.core.workers.comparing import WorkerTally
from rosa_server.serving.watching.hub import DECIDED, GOING, ORDERED, Hub
from rosa_server.serving.watching.pictures import Pictures
from rosa_server.serving.watching.watchers import Watchers

ANSWER_WITHIN_S = 5.0
MAX_QUESTIONS = 64  # decisions whose robots have not answered
# Decisions of one robot's reports in the log: more than people make, and half of what there is for all robots together.
AUDITS_PER_S, AUDITS_AT_ONCE = 1.0, 10.0
MAX_METERED = 1000  # robots whose reports are counted for that
MAX_LOGGED = 256  # decisions whose robots answered here, and will tell of them in their reports again

_Key = tuple[str, int, str, str, str]  # robot, alert, choice, who, why


class OpenQuestion(NamedTuple):
    """A decision that is with its robot."""

    asked: Asked
    connection: bytes
    until_s: float


class WatchPost:
    """Everything that the gateway does for those who watch; it never waits."""

    def __init__(self, hub: Hub, context: zmq.Context[zmq.Socket[bytes]], endpoint: str) -> None:
        """`endpoint`: where they connect; empty: nobody can. Raises `zmq.ZMQError`."""
        self.hub = hub
        self.pictures = Pictures()
        self._watchers = Watchers(context, endpoint) if endpoint else None
        self._questions: dict[int, OpenQuestion] = {}
        self._number = 0
        self.orders: list[Order] = []  # for whoever runs the server
        self._lines = log.LineBudget()
        self._audit_lines = log.LineBudget()
        self._audits: dict[str, Bucket] = {}  # robot -> its share of these lines
        # A robot tells of a decision twice, in its answer and in its report: the later one is not logged again.
        self._answered: deque[_Key] = deque(maxlen=MAX_LOGGED)
        self._audited: deque[_Key] = deque(maxlen=MAX_LOGGED)

    def step(self, now_s: float, core: ServingCore) -> Iterator[tuple[bytes, Decide]]:
        """Send what is due. Yields what has to be said to robots."""
        self._take_visits(now_s, core)
        if self._watchers is None:
            return
        for asked in self._watchers.read(now_s):
            if isinstance(asked, Order):
                self.orders.append(asked)
                continue
            if isinstance(asked, Look):
                self.pictures.ask(now_s, asked.watcher, asked.robot)
                continue
            question = self._question(now_s, asked, core)
            if question is not None:
                yield question
        self.pictures.forget(now_s)
        watched = len(self._watchers) > 0
        if self._watchers.came or watched != self.hub.watched:
            self.hub.watch(watched)
        self._watchers.came = 0
        self.hub.dropped += self._watchers.dropped
        self._watchers.dropped = 0
        for message in self.hub.due(now_s, time.time(), core):
            self._watchers.tell(message)
        for number in [one for one, asked in self._questions.items() if now_s > asked.until_s]:
            words = (
                f"the robot did not answer within {ANSWER_WITHIN_S:g} s; look at it before you decide again"
            )
            self._answer(self._questions.pop(number).asked, Decided(number, False, "no_answer", words))

    def reported(
        self,
        now_s: float,
        core: ServingCore,
        robot: str,
        frame: bytes,
        alert: OpenAlert | None,
        held: int,
        audits: Sequence[Audit],
    ) -> None:
        """A robot that is here has said how it is, see `Hub.reported`; `audits`: what persons decided about it."""
        self._take_visits(
            now_s, core
        )  # what it says on a new connection comes after it had left on the old one
        self.hub.reported(robot, frame, alert, held)
        if audits:
            self.audited(now_s, robot, audits)

    def show(self, now_s: float, robot: str, images: Mapping[str, EncodedImage]) -> None:
        """Hand the pictures of a request to those who look at its robot."""
        watchers, message = self.pictures.shown(now_s, robot, images)
        if self._watchers is not None:
            for watcher in watchers:
                self._watchers.answer(watcher, message)

    def going(self, order: Order, words: str) -> None:
        """A step of an order is done."""
        if self._watchers is not None:
            self._watchers.answer(
                order.watcher, [GOING, encode_answer(Answer(order.number, True, "", words))]
            )

    def compare(self, workers: Sequence[str]) -> Mapping[str, WorkerTally]:
        """What these workers have answered since they were named first."""
        return {one: self.hub.compared.setdefault(one, WorkerTally()) for one in workers}

    def compare_no_more(self, workers: Sequence[str]) -> None:
        """Nothing of these is counted apart any more."""
        for worker_id in workers:
            self.hub.compared.pop(worker_id, None)

    def rescheduled(self, about: Mapping[str, Any]) -> None:
        """Another schedule runs."""
        self.hub.about = {**self.hub.about, "schedule": dict(about)}

    def obeyed(self, order: Order, cause: str, words: str) -> None:
        """Answer an order. `cause`: why it was not carried out; empty: it was."""
        if self._watchers is not None:
            answer = Answer(order.number, not cause, cause, words)
            self._watchers.answer(order.watcher, [ORDERED, encode_answer(answer)])

    def close(self) -> None:
        if self._watchers is not None:
            self._watchers.close()

    def _take_visits(self, now_s: float, core: ServingCore) -> None:
        while core.visits:
            self._visit(now_s, core.visits.popleft())

    def _visit(self, now_s: float, visit: Any) -> None:
        fields = {"robot": visit.robot, "task": visit.task, "slot": visit.slot, "reason": visit.reason}
        told = {name: value for name, value in fields.items() if value}
        self.hub.happened(now_s, visit.event, **told)
        if visit.event == "robot_left":
            self.hub.left(visit.robot)
        if self._lines.due(now_s):
            log.event(visit.event, **told)

    def refused(self, now_s: float, cause: str, reason: str, robot: str) -> None:
        self.hub.refused[cause] += 1
        self.hub.happened(now_s, "refused", cause=cause, reason=reason[:200], robot=robot)

    # -- decisions ------------------------------------------------------------------------------------------------

    def _question(self, now_s: float, asked: Asked, core: ServingCore) -> tuple[bytes, Decide] | None:
        session = core.sessions.of_robot(asked.robot)
        cause = words = ""
        if session is None or session.gone:
            cause, words = "robot_not_here", f"robot {asked.robot!r} is not connected"
        elif not session.reports:
            cause, words = (
                "takes_no_decisions",
                f"robot {asked.robot!r} does not report and takes no decisions from here",
            )
        elif len(self._questions) >= MAX_QUESTIONS:
            cause, words = "overloaded", f"{MAX_QUESTIONS} decisions wait for their robots"
        if cause or session is None:
            self._answer(asked, Decided(0, False, cause, words))
            return None
        self._number += 1
        self._questions[self._number] = OpenQuestion(asked, session.connection, now_s + ANSWER_WITHIN_S)
        decide = Decide(self._number, asked.alert_id, asked.choice, asked.decided_by, asked.why)
        return session.connection, decide

    def decided(self, connection: bytes, answer: Decided) -> None:
        """A robot has judged a decision; nobody answers for another one's connection."""
        question = self._questions.get(answer.number)
        if question is not None and question.connection == connection:
            del self._questions[answer.number]
            key = _key(question.asked)
            told = key in self._audited
            (self._audited.remove if told else self._answered.append)(key)
            self._answer(question.asked, answer, logged=told)

    def audited(self, now_s: float, robot: str, audits: Sequence[Audit]) -> None:
        """A robot reports decisions that may have come over ROS: its own record ends with its nodes, the log stays."""
        for audit in audits:
            key = (robot, audit.alert_id, audit.choice, audit.decided_by, audit.why)
            if key in self._answered:
                self._answered.remove(key)
                continue
            if not self._may_log(now_s, robot):
                continue
            if any(_key(one.asked) == key for one in self._questions.values()):
                self._audited.append(key)
            _log_decision(key, audit.accepted, audit.reason)

    def _may_log(self, now_s: float, robot: str) -> bool:
        """Whether a decision of this robot's report is logged: no robot leaves out those of others with its own."""
        if robot not in self._audits and len(self._audits) >= MAX_METERED:
            self._audits.clear()
        share = self._audits.setdefault(robot, Bucket(AUDITS_PER_S, AUDITS_AT_ONCE))
        if not share.take_if_left(1.0, now_s):
            return False
        if self._audit_lines.due(now_s):
            return True
        share.give_back(1.0)  # others have left no room: that costs this robot nothing
        return False

    def _answer(self, asked: Asked, answer: Decided, logged: bool = False) -> None:
        """Every decision is in the log of the server, taken or not: who, what, why."""
        if not logged:
            _log_decision(_key(asked), answer.accepted, answer.reason)
        if self._watchers is not None:
            told = Answer(asked.number, answer.accepted, answer.cause, answer.reason)
            self._watchers.answer(asked.watcher, [DECIDED, encode_answer(told)])


def _key(asked: Asked) -> _Key:
    return asked.robot, asked.alert_id, asked.choice, asked.decided_by, asked.why


def _log_decision(key: _Key, accepted: bool, reason: str) -> None:
    robot, alert, choice, by, why = key
    said: dict[str, Any] = {"robot": robot, "alert": alert, "choice": choice, "by": by, "why": why}
    log.event("operator_decided", **said, accepted=accepted, reason=reason)
