"""The way back to the initial state: the moves of a reset, one after another.

First up and clear of everything; then put down what the gripper holds; home comes last.
Source: ROSA 3.3, "Task retry policy": "the system resets the robot to its initial state and retries the task".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rosa_client.runtime.commands import KEEP, OPEN


@dataclass(frozen=True)
class Leg:
    """One move to a named pose, with the gripper as it is (KEEP) or OPEN, and how long to stay there."""

    pose: str
    gripper: str = KEEP
    stay_s: float = 0.0


TO_SAFETY = Leg("safe")
UP_AND_CLEAR = Leg("clear")
DOWN = Leg("drop")
LET_GO = Leg("drop", OPEN, stay_s=0.6)  # the fingers need this long to open fully
UP_EMPTY = Leg("clear", OPEN)
HOME = Leg("home", OPEN)

FIRST_LEG = UP_AND_CLEAR

# (leg that has ended, whether something is between the fingers now) -> the leg that follows.
WAY_HOME: Mapping[tuple[Leg, bool], Leg] = {
    (UP_AND_CLEAR, True): DOWN,
    (UP_AND_CLEAR, False): UP_EMPTY,
    (DOWN, True): LET_GO,
    (DOWN, False): LET_GO,
    (LET_GO, True): UP_EMPTY,
    (LET_GO, False): UP_EMPTY,
    (UP_EMPTY, True): HOME,
    (UP_EMPTY, False): HOME,
}


def next_leg(done: Leg, gripper_holds: bool) -> Leg | None:
    """What follows `done` on the way home; None at its end."""
    return WAY_HOME.get((done, gripper_holds))
