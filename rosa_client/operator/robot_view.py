"""What an operator knows of one robot, gathered from its topics. Pure: messages and the time come as arguments.

Messages are read by attribute only, so nothing of ROS is imported. `now_s` is the panel's own monotonic clock; stamps
of other machines are shown to people, never compared.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from rosa_contract.errors import ContractError

SILENT_S = 1.0  # RobotStatus comes at 10 Hz; ten missing in a row are not chance
ALERT_SETTLES_S = 1.0  # alert and status are different topics: either may arrive first
NOTICE_S = 10.0
OUTCOME_S = 15.0
KEPT_AUDITS = 50
KEPT_NOTICES = 3
GRIPPER = "gripper"  # the column of a width, with the arm's name before it where there are several
WAITING = ("waiting_for_human", "clearing")
# Decisions of a task that goes well; every other one is shown to the operator.
ROUTINE = frozenset({"start", "execute", "send", "plan", "discard", "clear", "done"})


class OperatorError(ContractError):
    """A robot could not be reached; the text says what was found instead."""


class ForwardKinematics(Protocol):
    """Forward kinematics, as `rosa_contract.kinematics.chain.Chain`."""

    def tool(self, q_rad: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Tool positions `(..., 3)` m of joint positions `(..., joints)` rad."""


PlacedArm = tuple[
    slice, ForwardKinematics | None
]  # which columns of an action are an arm's, and where they lead it


@dataclass(frozen=True)
class AlertView:
    """An alert that waits for a decision."""

    id: int
    cause: str
    reason: str
    choices: tuple[str, ...]
    heard_s: float


@dataclass(frozen=True)
class AuditView:
    """What somebody decided, or tried to; `when_s` is the robot's wall clock, s since 1970, for people to read."""

    when_s: float
    choice: str
    decided_by: str
    why: str
    accepted: bool
    reason: str
    alert_id: int

    def line(self) -> str:
        """In one line, without the time."""
        verdict = "accepted" if self.accepted else f"refused, {self.reason}"
        return f"{self.choice} by {self.decided_by}: {verdict}"


@dataclass
class RobotView:
    """One robot as its operator sees it."""

    namespace: str
    first_seen_s: float
    status: Any = None  # rosa_interfaces/RobotStatus
    status_s: float = -math.inf
    arm: Any = None  # rosa_interfaces/ArmStatus
    arm_s: float = -math.inf
    alert: AlertView | None = None
    audits: deque[AuditView] = field(default_factory=lambda: deque(maxlen=KEPT_AUDITS))
    path_m: npt.NDArray[np.float64] | None = (
        None  # (arms, n, 3) tool positions of the chunk that plays, base frame
    )
    outcome: str = ""  # the result of the last click
    outcome_good: bool = True
    _outcome_until_s: float = -math.inf
    _notices: deque[tuple[float, str]] = field(default_factory=lambda: deque(maxlen=KEPT_NOTICES))

    @property
    def label(self) -> str:
        """The robot's name for people: its own, or its namespace before the first status."""
        name = str(self.status.robot) if self.status is not None else ""
        return name or self.namespace.strip("/") or "robot"

    @property
    def stopped(self) -> bool:
        """The emergency stop is latched."""
        return self.arm is not None and bool(self.arm.emergency_stop)

    @property
    def last_audit(self) -> AuditView | None:
        """The newest decision by the robot's own clock: arm and runtime each tell theirs, in any order."""
        return max(self.audits, key=lambda entry: entry.when_s, default=None)

    def silent_for_s(self, now_s: float) -> float:
        """How long the robot has been silent, s; 0 while its status arrives."""
        return self._silent_since(self.status_s, now_s)

    def arm_silent_for_s(self, now_s: float) -> float:
        """The same for the arm node, which has its own status."""
        return self._silent_since(self.arm_s, now_s)

    def _silent_since(self, heard_s: float, now_s: float) -> float:
        age_s = now_s - max(heard_s, self.first_seen_s)
        return age_s if age_s > SILENT_S else 0.0

    def notices(self, now_s: float) -> list[str]:
        """Unusual decisions of the last seconds, the newest last."""
        return [text for until_s, text in self._notices if until_s > now_s]

    def shown_outcome(self, now_s: float) -> str:
        return self.outcome if now_s < self._outcome_until_s else ""

    # -- what is heard ----------------------------------------------------------------------------------------------

    def hear_status(self, now_s: float, message: Any) -> None:
        """Also drops an alert that the robot no longer waits for, as after a restart of its runtime."""
        self.status, self.status_s = message, now_s
        alert = self.alert
        if alert and message.state not in WAITING and now_s - alert.heard_s > ALERT_SETTLES_S:
            self.alert = None

    def hear_alert(self, now_s: float, message: Any) -> None:
        if not message.active:
            self.alert = None
            return
        self.alert = AlertView(
            int(message.id), message.cause, message.reason, tuple(message.choices), heard_s=now_s
        )

    def hear_arm(self, now_s: float, message: Any) -> None:
        self.arm, self.arm_s = message, now_s
        if int(message.state) != 1:  # no longer PLAYING
            self.path_m = None

    def hear_decision(self, now_s: float, message: Any) -> None:
        if message.action in ROUTINE or message.cause == "operator":
            return
        where = f" [{message.component}]" if message.component else ""
        text = f"{message.action}{where}: {message.cause}"
        # A repeated notice is shown once, for longer.
        kept = [entry for entry in self._notices if entry[1] != text]
        self._notices = deque([*kept, (now_s + NOTICE_S, text)], maxlen=KEPT_NOTICES)

    def hear_audit(self, now_s: float, message: Any) -> None:
        when_s = message.header.stamp.sec + message.header.stamp.nanosec / 1e9
        said = (message.choice, message.decided_by, message.why, bool(message.accepted), message.reason)
        self.audits.append(AuditView(when_s, *said, alert_id=int(message.alert_id)))

    def hear_chunk(self, now_s: float, chunk: Any, arms: Sequence[PlacedArm]) -> None:
        """The path of each tool through the waypoints of an action chunk; none for an invalid chunk."""
        self.path_m = tool_paths(chunk, arms)

    def hear_outcome(self, now_s: float, text: str, good: bool) -> None:
        """The result of a click."""
        self.outcome, self.outcome_good = text, good
        self._outcome_until_s = now_s + OUTCOME_S


def tool_paths(chunk: Any, arms: Sequence[PlacedArm]) -> npt.NDArray[np.float64] | None:
    """Tool positions `(arms, horizon, 3)` m in the base frame; None when the chunk cannot be drawn."""
    columns = len(chunk.names)
    data = np.asarray(chunk.data, dtype=np.float64)
    if (
        columns < 2
        or chunk.horizon < 2
        or data.size != chunk.horizon * columns
        or not np.isfinite(data).all()
    ):
        return None
    rows = data.reshape(int(chunk.horizon), columns)
    widths = sum(name == GRIPPER or name.endswith(f"_{GRIPPER}") for name in chunk.names)
    joints = sum(mine.stop - mine.start for mine, _ in arms)
    if (
        not arms or joints != columns - widths
    ):  # another robot's joints; the arm refuses the chunk and says so
        return None
    paths = [np.asarray(chain.tool(rows[:, mine]), np.float64) for mine, chain in arms if chain is not None]
    return np.stack(paths) if paths else None


def namespace_of(robot: str) -> str:
    """A robot's namespace from its name as people write it; "/" is the one without."""
    name = robot.strip("/")
    return f"/{name}" if name else ""


def natural(names: Sequence[str]) -> list[str]:
    """Names in the order people expect: panda2 before panda10."""

    def key(name: str) -> tuple[str, int, str]:
        digits = len(name) - len(name.rstrip("0123456789"))
        return name[: len(name) - digits], int(name[len(name) - digits :] or 0), name

    return sorted(names, key=key)
