"""Everything that the page shows, made of what the gateway tells. Pure: messages and a time go in, a view comes out."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rosa_contract.errors import CodecError
from rosa_contract.wire.packing import check_sum, unpack
from rosa_contract.wire.status import HAS_AUDITS
from rosa_server.dashboard.memory import report_in, timeline
from rosa_server.dashboard.pictures import Gallery
from rosa_server.dashboard.robots import WINDOW_S, Robots
from rosa_server.serving.watching.hub import ABOUT, EVENTS, ROBOTS, STATE, STATUS, VERSION

LOST_AFTER_S = 1.5  # the gateway tells its state twice a second
HISTORY = 900  # points, one a second
MAX_LINES = 200  # of the audit log, and of what happened
MAX_NEWS_BYTES = 8 << 20
MAX_ENTRIES = 1 << 16


class FleetModel:
    """One gateway and its robots, as a page shows them."""

    def __init__(self) -> None:
        self.robots = Robots()
        self.pictures = Gallery()
        self.about: Mapping[str, Any] = {}
        self.state: Mapping[str, Any] = {}
        self.problem = ""  # why what the gateway tells cannot be shown
        self.audits: deque[tuple[int, dict[str, Any]]] = deque(maxlen=MAX_LINES)
        self.events: deque[tuple[int, dict[str, Any]]] = deque(maxlen=MAX_LINES)
        self.history: deque[tuple[int, list[float]]] = deque(maxlen=HISTORY)
        self._line = 0
        self._heard_s: float | None = None
        self._back_s = 0.0  # since when the gateway is heard without a gap
        self._states: deque[Mapping[str, Any]] = deque(maxlen=24)
        self._point_s = 0.0
        self._offset_s = 0.0  # wall time less the gateway's own

    # -- what is heard --------------------------------------------------------------------------------------------

    def hear(self, message: Sequence[bytes], now_s: float) -> None:
        """A message of the gateway; what cannot be read is dropped, and the page says that something is wrong."""
        topic = message[0]
        try:
            if topic in (ABOUT, STATE, ROBOTS, STATUS, EVENTS):
                self._take(topic, _body(message), now_s)
        except (CodecError, ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
            self.problem = (
                f"a message of the gateway cannot be read: {type(error).__name__}: {str(error)[:120]}"
            )

    def _take(self, topic: bytes, body: Mapping[str, Any], now_s: float) -> None:
        if body.get("v") != VERSION:
            found = body.get("v")
            self.problem = (
                f"the gateway tells version {found!r}, this dashboard reads {VERSION}: use one release"
            )
            return
        if topic == STATUS:
            for robot, held, frame in body["reports"]:
                self._report(now_s, robot, int(held), frame)
        elif topic == ABOUT:
            self.about, self.robots.tasks = body, body["tasks"]
        elif topic == ROBOTS:
            self.robots.listed(now_s, float(body["at_s"]), body["robots"])
        elif topic == EVENTS:
            for event in body["events"]:
                self._happened(event)
        else:
            if self.lost(now_s):
                self._back_s = now_s
            self._heard_s, self.problem = now_s, ""
            if self.state and body["at_s"] < self.state["at_s"]:
                self._begin_anew()
            elif self.state and _answered(body) < _answered(self.state):
                self._states.clear()  # started again on its machine: the clock goes on, its counters begin at zero
            self.state, self._offset_s = body, float(body["wall_s"]) - float(body["at_s"])
            self._states.append(body)
            self._point(body)

    def _begin_anew(self) -> None:
        """Another gateway has taken the place of the one before: its counters, and its clock, begin anew."""
        self._states.clear()
        self._point_s = 0.0
        for one in list(self.robots):
            self.robots.left(one.robot)

    def _report(self, now_s: float, robot: str, held: int, frame: bytes) -> None:
        self.robots.reported(now_s, robot, held, frame)
        if not held & HAS_AUDITS:
            return
        report = report_in(frame)
        for audit in report.audits if report is not None else ():
            told = {name: getattr(audit, name) for name in audit.__dataclass_fields__}
            wall_s = self.wall_s(now_s) - audit.age_ms / 1000
            self._line += 1
            self.audits.append((self._line, {**told, "robot": robot, "wall_s": wall_s}))

    def _happened(self, event: Mapping[str, Any]) -> None:
        told = {key: event.get(key, "") for key in ("event", "robot", "task", "cause", "reason")}
        if told["event"] == "robot_left":
            self.robots.left(str(told["robot"]))
        self._line += 1
        self.events.append((self._line, {**told, "wall_s": float(event["at_s"]) + self._offset_s}))

    # -- what is shown --------------------------------------------------------------------------------------------

    @property
    def line(self) -> int:
        """The number of the newest line of the audit log and of what happened."""
        return self._line

    def wall_s(self, now_s: float) -> float:
        """The gateway's wall clock, s since 1970."""
        return self._offset_s + (float(self.state["at_s"]) if self.state else 0.0) + self.silent_s(now_s)

    def silent_s(self, now_s: float) -> float:
        """How long the gateway has said nothing."""
        return 0.0 if self._heard_s is None else now_s - self._heard_s

    def lost(self, now_s: float) -> bool:
        return self._heard_s is None or self.silent_s(now_s) > LOST_AFTER_S

    def refresh(self, now_s: float) -> None:
        """Call it some times a second."""
        if not self.lost(now_s):
            self.robots.forget_silent(now_s, self._back_s)
        self.robots.refresh(now_s)

    def totals(self, now_s: float) -> dict[str, Any]:
        """The figures of the whole fleet, and of each server."""
        actions_hz = _per_second(self._states, lambda state: float(state["actions"]))
        return {
            "now_s": now_s,
            "lost": self.lost(now_s),
            "heard": self._heard_s is not None,
            "silent_s": round(self.silent_s(now_s), 1),
            "problem": self.problem,
            "wall_s": round(self.wall_s(now_s), 2),
            "ready": bool(self.state.get("ready", False)),
            "source": str(self.about.get("source", "")),
            "endpoint": str(self.about.get("endpoint", "")),
            "schedule": self.about.get("schedule"),
            "epoch": self.state.get("epoch"),
            "robots": len(self.robots),
            "actions_hz": None if actions_hz is None else round(actions_hz, 2),
            "actions": self.state.get("actions", 0),
            "tasks": self.state.get("tasks", {}),
            "answers": self.state.get("answers", {}),
            "refused": self.state.get("refused", {}),
            "dropped": self.state.get("dropped", 0),
            "servers": [self._server(one) for one in self.state.get("servers", ())],
        }

    def _server(self, one: Mapping[str, Any]) -> dict[str, Any]:
        before = _before(self._states, one["id"])
        elapsed_s = 0.0 if before is None else self.state["at_s"] - before[0]
        shown = {
            key: one[key]
            for key in ("id", "model", "standby", "epoch", "workers", "wanted", "streams", "waiting")
        }
        used = fill = None
        if before is not None and elapsed_s > 0:
            old = before[1]
            busy_s = (one["busy_ms"] - old["busy_ms"]) / 1000
            used = round(min(1.0, busy_s / (elapsed_s * max(1, one["workers"]))), 3)
            room = one["room"] - old["room"]
            fill = round((one["filled"] - old["filled"]) / room, 3) if room > 0 else None
        return {**shown, "oldest_ms": round(one["oldest_ms"], 1), "utilisation": used, "fill": fill}

    def robot(self, robot: str, now_s: float, since_s: float = -1.0) -> dict[str, Any] | None:
        """The last minutes of one robot; None for one that is not here."""
        one = self.robots.get(robot)
        if one is None:
            return None
        told = timeline(one.memory.reports(now_s, since_s), now_s, one.memory.gaps(now_s))
        return {**told, "row": one.row, "until": now_s}

    def _point(self, state: Mapping[str, Any]) -> None:
        at_s = float(state["at_s"])
        if at_s - self._point_s < 1.0 and self.history:
            return
        actions_hz = _per_second(self._states, lambda one: float(one["actions"]))
        if actions_hz is None:
            return
        self._point_s = at_s
        number = self.history[-1][0] + 1 if self.history else 1
        done = float(state["tasks"].get("done", 0))
        self.history.append((number, [round(float(state["wall_s"]), 1), round(actions_hz, 2), done]))


def _body(message: Sequence[bytes]) -> dict[str, Any]:
    body = unpack(message[1], "news", MAX_NEWS_BYTES, MAX_ENTRIES)
    check_sum(message[1], body, "news")
    return body


def _answered(state: Mapping[str, Any]) -> int:
    return sum(state["answers"].values())


def _per_second(
    states: Sequence[Mapping[str, Any]], value: Callable[[Mapping[str, Any]], float]
) -> float | None:
    if len(states) < 2:
        return None
    newest = states[-1]
    for state in states:
        elapsed_s = newest["at_s"] - state["at_s"]
        if 0 < elapsed_s <= WINDOW_S + 0.5:
            return max(0.0, (value(newest) - value(state)) / float(elapsed_s))
    return None


def _before(states: Sequence[Mapping[str, Any]], server: str) -> tuple[float, Mapping[str, Any]] | None:
    """The same server some seconds ago."""
    newest_s = states[-1]["at_s"] if states else 0.0
    for state in states:
        if 0 < newest_s - state["at_s"] <= WINDOW_S + 0.5:
            for one in state["servers"]:
                if one["id"] == server:
                    return state["at_s"], one
    return None
