"""When a gripper behind an action gets a new goal, and when it counts as broken.

Pure. The arm asks for a width at every control period; an action takes one goal after another and answers when the
fingers have stopped.
"""

from __future__ import annotations

from dataclasses import dataclass

CHANGE_M = 0.004  # a smaller change of the width is no new goal
EVERY_S = 0.1  # at most one goal in this time
MOVED_M = 0.003  # fingers that moved less did not move
FAR_M = 0.01  # a goal nearer than this may end without a motion


@dataclass(frozen=True)
class Goal:
    """Move the fingers to `width_m` apart; `closing`: with the force of a grasp."""

    number: int
    width_m: float
    closing: bool


@dataclass(frozen=True)
class Result:
    """How a goal ended: `stalled` means that the fingers press on something; `error` is the action's own text."""

    number: int
    reached: bool
    stalled: bool
    error: str = ""


class GripperGoals:
    """One gripper. Times are monotonic, in s."""

    def __init__(self, open_m: float, timeout_s: float, closed_m: float = 0.0) -> None:
        """`open_m` and `closed_m`: the widths of the open and of the closed gripper."""
        self._open_m = open_m
        self._closed_m = closed_m
        self._timeout_s = timeout_s
        self._goal: Goal | None = None
        self._from_m = open_m  # where the fingers stood when the goal was sent
        self._sent_s = float("-inf")
        self._waiting = False
        self._count = 0
        self.fault = ""
        self._halted = False

    def wanted(self, now_s: float, width_m: float, measured_m: float) -> Goal | None:
        """The goal to send now, if any. A gripper with a fault gets none until `recover`, one that was halted until
        `go_on`."""
        if self.fault or self._halted or now_s - self._sent_s < EVERY_S:
            return None
        last_m = self._goal.width_m if self._goal is not None else measured_m
        if self._goal is None and abs(width_m - measured_m) < CHANGE_M:
            return None
        closes = (
            width_m <= self._closed_m < last_m
        )  # also by a last small step, or a thin part would not be held
        if self._goal is not None and abs(width_m - last_m) < CHANGE_M and not closes:
            return None
        self._count += 1
        self._goal = Goal(self._count, width_m, width_m < measured_m)
        self._from_m, self._sent_s, self._waiting = measured_m, now_s, True
        return self._goal

    def ended(self, result: Result, measured_m: float) -> None:
        """A goal ended. That of a goal which another one has replaced means nothing."""
        goal = self._goal
        if goal is None or result.number != goal.number:
            return
        self._waiting = False
        if result.error:
            self.fault = f"the gripper refused {goal.width_m:.3f} m: {result.error}"
        elif not result.reached and not result.stalled:
            self.fault = f"the gripper did not reach {goal.width_m:.3f} m: it stands at {measured_m:.3f} m"
        elif result.stalled and self._stuck(goal, measured_m):
            self.fault = (
                f"the gripper does not move: it stands at {measured_m:.3f} m, asked for {goal.width_m:.3f} m"
            )

    def check(self, now_s: float) -> None:
        """Note a goal that has been without a result for too long."""
        if self._waiting and self._goal is not None and now_s - self._sent_s > self._timeout_s:
            self._waiting = False
            asked = f"{self._goal.width_m:.3f} m"
            self.fault = f"no result from the gripper for {self._timeout_s:g} s; it was asked for {asked}"

    def halt(self) -> None:
        """No new goal until `go_on`; one that was sent is not taken back."""
        self._halted = True

    def go_on(self) -> None:
        """The next width that differs is a goal again."""
        self._halted = False

    def drop(self) -> None:
        """The last goal was never begun: its width is wanted as if for the first time."""
        self._goal, self._waiting = None, False

    def recover(self) -> None:
        """An operator has looked after it: the next width is a new goal."""
        self.fault = ""
        self.drop()

    def _stuck(self, goal: Goal, measured_m: float) -> bool:
        """Whether fingers that stopped early never moved. Closing on something that is already held moves nothing."""
        if abs(goal.width_m - self._from_m) < FAR_M or abs(measured_m - self._from_m) > MOVED_M:
            return False
        return not goal.closing or self._from_m > self._open_m - FAR_M
