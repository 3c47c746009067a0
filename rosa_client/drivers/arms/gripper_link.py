"""The grippers of an arm behind ros2_control: what each is, and what was heard of it. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rosa_client.drivers.arms.gripper_scale import joint_scale
from rosa_contract.config.arms import GripperActions, Ros2ControlSettings
from rosa_contract.config.robot import GripperSpec, RobotSpec

IMPOSSIBLE_SHARE = (
    0.25  # of the opening, beyond either end: worn fingers are off by less, another unit by more
)
GRIPPER_SILENT_S = (
    2.0  # an action server that was there may be invisible for a moment, a finger's position be lost
)


@dataclass(frozen=True)
class GripperBody:
    """One gripper of a robot file: its range, its actions, and the finger joints as the joint states name them."""

    name: str
    spec: GripperSpec
    settings: GripperActions
    fingers: tuple[str, ...]  # whose mean position tells the width


def grippers_of(spec: RobotSpec, settings: Ros2ControlSettings) -> tuple[GripperBody, ...]:
    """In the order of every array of widths."""
    found: list[GripperBody] = []
    for limb in spec.limbs:
        if not limb.gripper.exists:
            continue
        actions = settings.grippers[limb.name] if limb.name else settings.gripper
        mine = spec.finger_joints[2 * len(found) : 2 * len(found) + 2]
        fingers = tuple(settings.joint_prefix + joint for joint in actions.joints or mine)
        found.append(GripperBody(limb.called("gripper"), limb.gripper, actions, fingers))
    return tuple(found)


def finger_joints(spec: RobotSpec, settings: Ros2ControlSettings) -> tuple[str, ...]:
    """Those of all grippers."""
    return tuple(finger for body in grippers_of(spec, settings) for finger in body.fingers)


class GripperLink:
    """What was heard of one gripper. Times are monotonic, in s."""

    def __init__(self, body: GripperBody, topic: str, now_s: float) -> None:
        """`topic`: where the arm's joint states are."""
        self.body = body
        self.width_m = body.spec.max_m  # as last heard; open, before anything was heard
        self._scale = joint_scale(body.spec, body.settings, max(1, len(body.fingers)))
        self._topic = body.settings.joint_states or topic
        self._heard_s: float | None = None  # when it was heard last
        self._missing, self._there_s = "", now_s  # why it cannot be moved, and when it last could

    def hear_fingers(self, now_s: float, at: Mapping[str, int], position: Sequence[float]) -> None:
        """A joint state; `at`: where in it a joint is."""
        fingers = self.body.fingers
        heard = [position[at[name]] for name in fingers if name in at and at[name] < len(position)]
        if heard and all(math.isfinite(value) for value in heard):
            # One finger alone stands for both.
            self.width_m = self._scale.width_m(float(sum(heard)) / len(heard))
            self._heard_s = now_s

    def hear_action(self, now_s: float, missing: str) -> None:
        """`missing`: why its action cannot be used; empty while it can."""
        self._missing = missing
        if not missing:
            self._there_s = now_s

    def fault(self, now_s: float) -> str:
        """Why it cannot be used; an arm that could not grasp or let go does not begin to move."""
        if now_s - self._there_s > GRIPPER_SILENT_S:
            return self._missing
        if self._heard_s is None:
            return ""
        if now_s - self._heard_s > GRIPPER_SILENT_S:
            return self._silence(f" for {GRIPPER_SILENT_S:g} s")
        min_m, max_m = self.body.spec.min_m, self.body.spec.max_m
        beyond_m = max(min_m - self.width_m, self.width_m - max_m)
        if beyond_m > IMPOSSIBLE_SHARE * (max_m - min_m):
            return (
                f"{', '.join(self.body.fingers)} tells a gripper that is open by {self.width_m:.3f} m, expected"
                f" {min_m:g}..{max_m:g}: see open_position, closed_position and joint_... in arm.gripper"
            )
        return ""

    def unheard(self) -> str:
        """Why its width is not known, in words; empty when it is."""
        return "" if self._heard_s is not None else self._silence()

    def _silence(self, lasts: str = "") -> str:
        fingers = ", ".join(self.body.fingers)
        return f"no position of {fingers} on {self._topic}{lasts}: how far the gripper is open is unknown"
