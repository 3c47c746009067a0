"""What can look wrong, by its cause, and from when on something does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

CAUSES: Mapping[str, str] = {
    "robot_differs": "the robot's cameras, joints or grippers do not match the model's; a server would refuse it",
    "not_finite": "an answer contains NaN or infinite numbers",
    "wrong_columns": "the number of action columns does not match the robot's joints and grippers",
    "no_actions": "an action model returned no actions",
    "camera_twice": "two of the model's cameras show the same picture",
    "camera_ignored": "the answers do not depend on one of the cameras",
    "constant_answer": "the answers do not depend on the input at all",
    "colours_swapped": "answers match the recording if red and blue are swapped",
    "cameras_swapped": "answers match the recording if two cameras are swapped",
    "camera_upside_down": "answers match the recording if one camera is rotated by 180 degrees",
    "joints_swapped": "answers match the recording if joints or arms are swapped",
    "joint_reversed": "answers match the recording if a joint's sign is flipped",
    "degrees_for_radians": "values match if degrees are read as radians, or radians as degrees",
    "gripper_upside_down": "gripper commands match if open and closed are swapped",
    "gripper_unit": "gripper values match in another unit or range",
    "gripper_still": "the gripper opens and closes in the recording but never moves in the answers",
    "action_rate": "answers match the recording if played faster or slower",
    "chunk_short": "a chunk ends long before the robot asks for the next one",
    "out_of_limits": "actions exceed the robot's joint limits",
    "unreachable": "the arm cannot reach the poses that the actions lead to",
    "far_away": "actions start far from the robot's current position",
    "unlike_recorded": "answers are no closer to the recording than standing still",
}
GOOD = 0.3  # of `unlike`: below it nothing is suspected
BETTER = 0.6  # another convention is named when the error falls to this share


@dataclass(frozen=True)
class Suspicion:
    """One thing that looks wrong."""

    cause: str  # of `CAUSES`
    found: str  # what was measured and what it means
    do: str  # what to do

    def __post_init__(self) -> None:
        if self.cause not in CAUSES:
            raise ValueError(f"no cause {self.cause!r}")

    def line(self) -> str:
        return f"{self.cause}: {self.found}; {self.do}"
