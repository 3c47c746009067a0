"""The way back to the initial state: which moves a reset of the robot makes, one after another.

Up and clear of everything first; what is held is put down before the gripper opens for good; home comes last.
Source: ROSA 3.3, "Task retry policy": "the system resets the robot to its initial state and retries the task".
"""

from __future__ import annotations

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


def next_leg(done: Leg, holds: bool) -> Leg | None:
    """What follows `done` on the way home; None at its end. `holds`: something is between the fingers now."""
    if done == UP_AND_CLEAR:
        return DOWN if holds else UP_EMPTY
    return {DOWN: LET_GO, LET_GO: UP_EMPTY, UP_EMPTY: HOME}.get(done)
