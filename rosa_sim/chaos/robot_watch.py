"""The robot's promises (DESIGN, "Invariants"), checked on every command of one robot's core.

It keeps its own books: what was sent when, which answer has arrived, what the arm was told last.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from rosa_client.runtime.commands import Alert, CallEnded, Command, Hold, MoveTo, Play, Send, TaskEnded
from rosa_contract.config.robot import RobotSpec
from rosa_contract.config.tasks import Task
from rosa_contract.fallbacks import FallbackAction, fallback
from rosa_contract.wire.messages import OK, Response

ROUNDING_S = 0.0021  # times of the simulated clock, and the step in which a body asks its core again


class Broken(Exception):
    """A promise did not hold."""

    def __init__(self, rule: str, words: str, now_s: float) -> None:
        super().__init__(f"{now_s:.6f} s: {rule}: {words}")
        self.rule, self.now_s = rule, now_s


@dataclass(slots=True)
class _Sent:
    component: str
    at_s: float
    deadline_s: float


class RobotWatch:
    """Everything that one life of a robot does."""

    def __init__(self, name: str, task: Task, spec: RobotSpec, period_s: float) -> None:
        """`period_s`: the longest time between two looks of the core, in s."""
        self._name, self._task, self._spec, self._period_s = name, task, spec, period_s
        self._open: dict[int, _Sent] = {}
        self._done: set[int] = set()
        self._arrived: Response | None = None  # the response that is being taken in
        self._ended_now: dict[int, str] = {}
        self._waits_for_human = False
        self._plays_until_s = -1.0
        self._moves = False
        self.played_s = -1.0  # the last chunk began
        self.plays = self.calls = self.alerts = self.ends = 0

    def arrives(self, response: Response) -> None:
        """A response is handed to the core next."""
        self._arrived = response

    def decided(self) -> None:
        """An operator's decision is handed to the core next, and the core accepts it."""
        self._waits_for_human = False

    def commands(self, commands: list[Command], now_s: float) -> None:
        """What the core has just returned. Raises `Broken`."""
        self._ended_now.clear()
        must_stop = ""
        for command in commands:
            if isinstance(command, Send):
                self._send(command, now_s)
            elif isinstance(command, CallEnded):
                must_stop = self._call_ended(command, now_s) or must_stop
            elif isinstance(command, Play | MoveTo):
                self._moving(command, now_s)
            elif isinstance(command, Hold):
                self._plays_until_s, self._moves = now_s, False
            elif isinstance(command, Alert):
                self._waits_for_human = True
                self.alerts += 1
            elif isinstance(command, TaskEnded):
                self._waits_for_human = False
                self.ends += 1
        must_stop = must_stop or self._unsafe()
        if must_stop and self._plays_until_s > now_s:
            raise Broken("stop_within_a_period", f"{self._name} plays on although {must_stop}", now_s)
        if self._waits_for_human and (self._plays_until_s > now_s or self._moves):
            raise Broken("still_after_escalation", f"{self._name} called a human and still moves", now_s)
        self._arrived = None

    def look(self, now_s: float) -> None:
        """Time has passed: no call may be open beyond its deadline and one period. Raises `Broken`."""
        for request_id, sent in self._open.items():
            if now_s > sent.deadline_s + self._period_s + ROUNDING_S:
                late_ms = (now_s - sent.deadline_s) * 1000
                words = (
                    f"{self._name}: {sent.component} {request_id} is open {late_ms:.1f} ms after its deadline"
                )
                raise Broken("stop_within_a_period", words, now_s)

    def _send(self, send: Send, now_s: float) -> None:
        if send.request_id in self._done or send.request_id in self._open:
            raise Broken("ends_once", f"{self._name} sends number {send.request_id} again", now_s)
        if any(sent.component == send.component for sent in self._open.values()):
            words = f"{self._name} sends {send.component} {send.request_id} before the former call has ended"
            raise Broken("ends_once", words, now_s)
        self._open[send.request_id] = _Sent(send.component, now_s, now_s + send.budget_ms / 1000)
        self.calls += 1

    def _call_ended(self, ended: CallEnded, now_s: float) -> str:
        """Returns why the arm has to stop now, or nothing."""
        sent = self._open.pop(ended.request_id, None)
        what = f"{self._name}: {ended.component} {ended.request_id} {ended.ending}"
        if sent is None:
            raise Broken("ends_once", f"{what}, but it was not open", now_s)
        self._done.add(ended.request_id)
        self._ended_now[ended.request_id] = ended.ending
        if ended.ending == "in_time":
            came = self._arrived
            if came is None or came.request_id != ended.request_id or came.status != OK:
                raise Broken("nothing_late", f"{what} without an answer", now_s)
            if now_s > sent.deadline_s + 1e-9:
                raise Broken("nothing_late", f"{what}, {now_s - sent.deadline_s:.6f} s late", now_s)
        if ended.ending == "missed":
            if now_s > sent.deadline_s + self._period_s + ROUNDING_S:
                raise Broken("stop_within_a_period", f"{what} {now_s - sent.deadline_s:.6f} s late", now_s)
            if fallback(self._task.components[ended.component].fallback) > FallbackAction.USE_LAST_PLAN:
                return f"{ended.component} {ended.request_id} was missed"
        return ""

    def _moving(self, order: Play | MoveTo, now_s: float) -> None:
        if self._waits_for_human:
            words = f"{self._name} gets {type(order).__name__} while it waits for a human"
            raise Broken("still_after_escalation", words, now_s)
        if isinstance(order, MoveTo):
            self._plays_until_s, self._moves = now_s, True
            return
        came = self._arrived
        if came is None or came.request_id != order.request_id:
            words = f"{self._name} plays request {order.request_id}, which is not what has just arrived"
            raise Broken("nothing_late", words, now_s)
        if self._ended_now.get(order.request_id) != "in_time":
            raise Broken("nothing_late", f"{self._name} plays {order.request_id}, not in time", now_s)
        limits = self._spec.limits
        rows = order.actions[:, : len(self._spec.joints)]
        inside = all(
            isfinite(value) and low <= value <= high
            for row in rows.tolist()
            for value, low, high in zip(row, limits.position_min_rad, limits.position_max_rad, strict=True)
        )
        if not inside:
            raise Broken("nothing_out_of_range", f"{self._name} plays beyond its limits", now_s)
        self._plays_until_s, self._moves, self.played_s = now_s + order.duration_s, False, now_s
        self.plays += 1

    def _unsafe(self) -> str:
        """Why the arm has to stop: safety has just said so."""
        came = self._arrived
        if came is None or self._ended_now.get(came.request_id) != "in_time" or came.output is None:
            return ""
        return "safety says unsafe" if came.output.verdict == "unsafe" else ""
