"""The robots of a fleet as the overview shows them: one row each, made anew only when something was said."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rosa_contract.wire.status import HAS_ALERT, HAS_AUDITS, HAS_NEWS, Status
from rosa_server.dashboard.memory import MAX_BYTES, MIN_ROBOT_BYTES, Memory, report_in

SILENT_AFTER_S = 4.0  # a robot says something every second
WINDOW_S = 5.0  # over which rates are measured
ROW_EVERY_S = 0.5
MAX_ROWS_HZ = 1000.0  # of a whole fleet; what is urgent comes at once
MAX_ROBOTS = 10_000
Row = dict[str, Any]


@dataclass(slots=True)
class ShownRobot:
    """What is known of one robot. `told`: its calls as the gateway has answered them."""

    robot: str
    version: int = 0  # of its row; grows over the whole fleet
    row: Row = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)  # of each value of its row, when it changed last
    here: bool = False
    task: str = ""
    slot: str = ""
    reports: bool = False
    heard_s: float = 0.0
    frame: bytes = b""  # its newest report
    alert_since_s: float | None = None
    changed: bool = True
    next_row_s: float = 0.0
    told: Sequence[Sequence[Any]] = ()
    acted: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=12))  # (s, actions in time)
    memory: Memory = field(default_factory=Memory)


class Robots:
    """By name. Nothing of what robots or the gateway say is trusted further than its type."""

    def __init__(self) -> None:
        self._by_name: dict[str, ShownRobot] = {}
        self._version = 0
        self.gone: deque[tuple[int, str]] = deque(maxlen=MAX_ROBOTS)
        self.tasks: Mapping[
            str, Mapping[str, Sequence[Any]]
        ] = {}  # task -> component -> model, slo_ms, rate_hz

    def __len__(self) -> int:
        return len(self._by_name)

    def __iter__(self) -> Iterator[ShownRobot]:
        return iter(self._by_name.values())

    @property
    def version(self) -> int:
        return self._version

    def get(self, robot: str) -> ShownRobot | None:
        return self._by_name.get(robot)

    # -- what is heard --------------------------------------------------------------------------------------------

    def listed(self, now_s: float, at_s: float, entries: Sequence[Any]) -> None:
        """The gateway tells of these robots, at its own time `at_s`."""
        for robot, task, slot, silent_s, reports, told, *_ in entries:  # who serves it is for `rosa robots`
            one = self._one(str(robot))
            if one is None:
                continue
            one.here, one.task, one.slot, one.reports = True, str(task), str(slot), bool(reports)
            one.heard_s = max(one.heard_s, now_s - float(silent_s))
            one.told = told
            for entry in told:
                if entry[0] == "system1":
                    if one.acted and int(entry[3]) < one.acted[-1][1]:
                        one.acted.clear()  # another gateway counts, or the same one anew
                    one.acted.append((at_s, int(entry[3])))
            one.changed = True

    def reported(self, now_s: float, robot: str, held: int, frame: bytes) -> None:
        """A robot's report, and what it has (`held_in`). It is read when a row is made of it, or somebody looks."""
        one = self._one(robot)
        if one is None:
            return
        one.here, one.reports, one.heard_s, one.frame, one.changed = True, True, now_s, frame, True
        if one.memory.hear(now_s) or held & HAS_NEWS:
            one.memory.keep(now_s, frame, max(MIN_ROBOT_BYTES, MAX_BYTES // max(1, len(self._by_name))))
        waits = bool(held & HAS_ALERT)
        turned = waits != (one.alert_since_s is not None)
        if turned:
            one.alert_since_s = now_s if waits else None
        if turned or held & HAS_AUDITS:
            one.next_row_s = now_s  # whoever waits for a person is shown at once

    def left(self, robot: str) -> None:
        if self._by_name.pop(robot, None) is not None:
            self._version += 1
            self.gone.append((self._version, robot))

    def forget_silent(self, now_s: float, since_s: float, after_s: float = 60.0) -> None:
        """Robots of which neither the gateway nor they themselves say anything any more.

        `since_s`: since when the gateway is heard; before, nobody could say anything of them.
        """
        for one in [one for one in self if now_s - max(one.heard_s, since_s) > after_s]:
            self.left(one.robot)

    def _one(self, robot: str) -> ShownRobot | None:
        one = self._by_name.get(robot)
        if one is None and len(self._by_name) < MAX_ROBOTS:
            one = self._by_name[robot] = ShownRobot(robot)
        return one

    # -- what is shown --------------------------------------------------------------------------------------------

    def refresh(self, now_s: float) -> None:
        """Make the rows anew that are due."""
        every_s = max(ROW_EVERY_S, len(self) / MAX_ROWS_HZ)
        for one in self:
            if one.changed and now_s >= one.next_row_s:
                one.changed, one.next_row_s = False, now_s + every_s
                self._update(one, self._row(now_s, one))
            elif one.row and one.row["silent"] != (now_s - one.heard_s > SILENT_AFTER_S):
                self._update(one, self._row(now_s, one))

    def _update(self, one: ShownRobot, row: Row) -> None:
        changed = [key for key, value in row.items() if key not in one.row or one.row[key] != value]
        if changed:
            self._version += 1
            one.version, one.row = self._version, row
            one.versions.update(dict.fromkeys(changed, self._version))

    def changes(self, since: int) -> tuple[list[Row], list[str]]:
        """What has changed of rows after this version, with the robot's name, and robots that have left since."""
        rows = [
            {
                "robot": one.robot,
                **{key: one.row[key] for key, version in one.versions.items() if version > since},
            }
            for one in self
            if one.version > since and one.row
        ]
        return rows, [robot for version, robot in self.gone if version > since and robot not in self._by_name]

    def _row(self, now_s: float, one: ShownRobot) -> Row:
        report = report_in(one.frame) if one.frame else None
        row: Row = {
            "robot": one.robot,
            "task": one.task,
            "slot": one.slot,
            "reports": one.reports,
            "silent": now_s - one.heard_s > SILENT_AFTER_S,
            "rate_hz": _rate(one.acted),
            "planned_hz": self._planned(one.task),
            "deadlines": self._deadlines(one, report),
            "state": "connected",
            "reason": "",
            "stopped": False,
            "running": False,
            "attempt": 0,
            "round": 0,
            "recording": "",
            "told": "",
            "alert": None,
        }
        if report is not None:
            row |= {
                "state": report.state,
                "reason": report.reason,
                "stopped": report.stopped,
                "running": report.running,
                "attempt": report.attempt,
                "round": report.round,
                "recording": report.recording,
                "told": report.told,
            }
            if report.alert is not None:
                alert = report.alert
                before = one.row.get("alert")
                if (
                    before is not None
                    and before["id"] != alert.alert_id
                    and one.alert_since_s == before["since_s"]
                ):
                    one.alert_since_s = now_s  # no report came between the two
                row["alert"] = {
                    "id": alert.alert_id,
                    "cause": alert.cause,
                    "reason": alert.reason,
                    "choices": list(alert.choices),
                    "since_s": now_s if one.alert_since_s is None else one.alert_since_s,
                }
        return row

    def _planned(self, task: str) -> float:
        entry = self.tasks.get(task, {}).get("system1")
        return float(entry[2]) if entry else 0.0

    @staticmethod
    def _deadlines(one: ShownRobot, report: Status | None) -> list[list[Any]]:
        """[component, slo_ms, last_ms, p99_ms, missed, in time, who measured]; the robot's own count goes first."""
        if report is not None and any(c.sent for c in report.components):
            return [
                [c.name, c.slo_ms, round(c.last_ms, 1), round(c.p99_ms, 1), c.missed, c.in_time, "robot"]
                for c in report.components
            ]
        return [
            [
                entry[0],
                entry[1],
                round(entry[1] - entry[4], 1),
                round(entry[1] - entry[5], 1),
                entry[2] - entry[3],
                entry[3],
                "server",
            ]
            for entry in one.told
        ]


def _rate(acted: deque[tuple[float, int]]) -> float:
    """Actions per second over the window; 0 while nothing is known."""
    if len(acted) < 2:
        return 0.0
    newest_s, newest = acted[-1]
    for at_s, count in acted:
        if newest_s - at_s <= WINDOW_S and newest_s > at_s:
            return round(max(0, newest - count) / (newest_s - at_s), 2)
    return 0.0
