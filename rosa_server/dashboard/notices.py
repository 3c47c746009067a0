"""What somebody who looks at no page is told: which alerts have opened and ended, and when a telling is tried again.

Pure: alerts and a time go in, deliveries come out. Each target gets every notice at least once, in order, until it is
too old to matter. A target that is down delays no other one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

OPENED, ENDED, SILENT, BACK = "alert_opened", "alert_ended", "server_silent", "server_back"
SILENT_AFTER_S = 10.0  # a server that is started again by hand is away for a moment
AGAIN_S = (
    1.0,
    2.0,
    5.0,
    10.0,
    30.0,
    60.0,
)  # after so long it is tried again; the last one holds from then on
GIVES_UP_S = 600.0
MAX_WAITING = 1000  # notices of one target
MAX_OF_ROBOT = (
    20  # of these: a robot whose alerts open and end all the time delays those of others no further
)
MAX_LOST = 100  # that nobody has asked for yet


@dataclass(frozen=True)
class Notice:
    """One thing to tell. `alert_id` 0: it is about the server."""

    event: str  # one of the four
    robot: str = ""
    alert_id: int = 0
    cause: str = ""
    reason: str = ""
    choices: tuple[str, ...] = ()
    task: str = ""
    wall_s: float = 0.0  # s since 1970

    def plain(self) -> dict[str, Any]:
        """As a webhook gets it; a key of its own for each telling, so that a second one is known."""
        return {
            "event": self.event,
            "key": f"{self.event}:{self.robot}:{self.alert_id or int(self.wall_s)}",
            "robot": self.robot,
            "alert_id": self.alert_id,
            "cause": self.cause,
            "reason": self.reason,
            "choices": list(self.choices),
            "task": self.task,
            "wall_s": round(self.wall_s, 3),
        }


class Notices:
    """Compares what is with what was told."""

    def __init__(self) -> None:
        self._open: dict[str, Notice] = {}
        self._silent = False

    def look(self, rows: Iterable[Mapping[str, Any]], silent_s: float, wall_s: float) -> list[Notice]:
        """`rows`: the robots as the page shows them. `silent_s`: how long the server has said nothing.

        While it is silent nothing is known of its robots, so no alert ends.
        """
        news = []
        if self._silent != (silent_s > SILENT_AFTER_S):
            self._silent = not self._silent
            words = f"nothing was heard for {silent_s:.0f} s" if self._silent else ""
            news.append(Notice(SILENT if self._silent else BACK, reason=words, wall_s=wall_s))
        if self._silent:
            return news
        now: dict[str, Notice] = {}
        here = set()
        for row in rows:
            here.add(row["robot"])
            alert = row.get("alert")
            if alert is not None:
                now[row["robot"]] = Notice(
                    OPENED,
                    row["robot"],
                    int(alert["id"]),
                    alert["cause"],
                    alert["reason"],
                    tuple(alert["choices"]),
                    row["task"],
                    wall_s,
                )
        for robot, told in list(self._open.items()):
            if robot not in now or now[robot].alert_id != told.alert_id:
                words = "" if robot in here else "the robot is not connected any more"
                news.append(Notice(ENDED, robot, told.alert_id, told.cause, words, (), told.task, wall_s))
                del self._open[robot]
        for robot, notice in now.items():
            if robot not in self._open:
                self._open[robot] = notice
                news.append(notice)
        return news


@dataclass(slots=True)
class _Target:
    waiting: deque[tuple[float, Notice]] = field(default_factory=deque)  # (since when, what)
    tried: int = 0
    next_s: float = 0.0
    busy: bool = False


class Deliveries:
    """What each target is still to be told. One telling at a time per target."""

    def __init__(self, targets: Iterable[str]) -> None:
        self._targets = {name: _Target() for name in targets}
        self.given_up = 0
        self._lost: deque[tuple[str, Notice]] = deque(maxlen=MAX_LOST)

    def add(self, now_s: float, notice: Notice) -> None:
        for name, target in self._targets.items():
            begin = 1 if target.busy else 0  # the first one is being told
            own = [
                at for at, (_, one) in enumerate(target.waiting) if at >= begin and one.robot == notice.robot
            ]
            if notice.robot and len(own) >= MAX_OF_ROBOT:
                self._drop(name, own[0])
            elif len(target.waiting) >= MAX_WAITING:
                self._drop(name, begin)
            target.waiting.append((now_s, notice))

    def lost(self) -> list[tuple[str, Notice]]:
        """(target, notice) of those that were given up untold since this was asked last."""
        lost = list(self._lost)
        self._lost.clear()
        return lost

    def due(self, now_s: float) -> list[tuple[str, Notice]]:
        """(target, notice) to tell now; each is answered by `ended`."""
        found = []
        for name, target in self._targets.items():
            while target.waiting and not target.busy and now_s - target.waiting[0][0] > GIVES_UP_S:
                self._drop(name, 0)
            if target.waiting and not target.busy and now_s >= target.next_s:
                target.busy = True
                found.append((name, target.waiting[0][1]))
        return found

    def ended(self, now_s: float, name: str, told: bool, again: bool = True) -> bool:
        """How a telling went. `again`: whether a failure may pass. Returns whether the notice is done with."""
        target = self._targets[name]
        target.busy = False
        if told:
            target.waiting.popleft()
            target.tried, target.next_s = 0, now_s
            return True
        if not again:
            self._drop(name, 0)
            self._lost.pop()  # whoever asked knows
            return True
        target.next_s = now_s + AGAIN_S[min(target.tried, len(AGAIN_S) - 1)]
        target.tried += 1
        return False

    def _drop(self, name: str, at: int) -> None:
        target = self._targets[name]
        self._lost.append((name, target.waiting[at][1]))
        del target.waiting[at]
        if at == 0:
            target.tried, target.next_s = 0, 0.0
        self.given_up += 1
