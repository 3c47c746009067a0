"""What can look wrong, by its cause, and from when on something does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

CAUSES: Mapping[str, str] = {
    "robot_differs": "the robot has other cameras, joints or grippers than the model takes, and would be refused",
    "not_finite": "an answer has numbers that are none",
    "wrong_columns": "actions have another number of columns than the robot has joints and gripper",
    "no_actions": "an action model answered no actions",
    "camera_twice": "two of the model's cameras show the very same picture",
    "camera_ignored": "answers do not depend on a camera",
    "constant_answer": "answers do not depend on what the model is shown",
    "colours_swapped": "answers fit the recording when red and blue change places",
    "cameras_swapped": "answers fit the recording when two cameras change places",
    "camera_upside_down": "answers fit the recording when a camera's pictures are turned by 180 degrees",
    "joints_swapped": "answers fit the recording when joints, or arms, change places",
    "joint_reversed": "answers fit the recording when a joint counts the other way",
    "degrees_for_radians": "numbers fit when they are taken as degrees instead of radians, or the other way",
    "gripper_upside_down": "the gripper's orders fit when open and closed change places",
    "gripper_unit": "the gripper's numbers fit in another unit or range",
    "gripper_still": "the gripper was opened and closed in the recording, and the answers leave it where it is",
    "action_rate": "answers fit the recording when they are played faster or slower",
    "chunk_short": "a chunk ends long before the robot asks for the next one",
    "out_of_limits": "actions are beyond the robot's joint limits",
    "unreachable": "the arm does not get to where actions lead",
    "far_away": "actions begin far from where the robot is",
    "unlike_recorded": "answers are no better than to stand still",
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
