"""Which frame a camera is fixed to, by the name of its link in the robot's description."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rosa_client.calibration.board import Array
from rosa_client.calibration.errors import CalibrationError
from rosa_contract.config.robot import RobotSpec
from rosa_contract.kinematics.chain import Chain

# Ends of link names, with and without a prefix such as panda_ or fr3_.
BASE = ("link0", "base", "base_link", "world")
FLANGE = ("link8", "flange", "tool0")
HAND = ("hand",)
TOOL = ("hand_tcp", "tool", "tcp")


@dataclass(frozen=True)
class Mounting:
    """`parent` is a link; `on_hand`: it moves with the hand."""

    parent: str
    on_hand: bool
    spec: RobotSpec

    def base_parent(self, q_rad: Array) -> Array:
        """Pose (4, 4) of what moves: the parent where it is on the hand, else the hand, at joint positions (dof,)."""
        assert self.spec.chain is not None
        chain = Chain(self.spec.chain)
        if not self.on_hand or _is(self.parent, HAND):
            return chain.hand(q_rad)
        if _is(self.parent, FLANGE):
            return chain.flange(q_rad)
        shift = np.eye(4)
        shift[2, 3] = self.spec.chain.tool_offset_m
        return np.asarray(chain.hand(q_rad) @ shift)


def mounting_of(spec: RobotSpec, camera: str, parent: str = "") -> Mounting:
    """`parent`: a link; empty: that of the camera's present pose. Raises `CalibrationError`."""
    if spec.chain is None:
        words = "the robot file has no `chain`: without link lengths the pose of the hand is unknown"
        raise CalibrationError("degenerate", words)
    pose = spec.cameras[camera].pose
    link = parent or (pose.parent if pose is not None else "")
    if not link:
        words = f"the robot file does not say what camera {camera!r} is fixed to: --parent LINK, such as panda_hand"
        raise CalibrationError("not_written", words)
    for ends, on_hand in ((TOOL, True), (HAND, True), (FLANGE, True), (BASE, False)):
        if _is(link, ends):
            return Mounting(link, on_hand, spec)
    known = ", ".join(sorted(f"*{end}" for end in (*TOOL, *HAND, *FLANGE, *BASE)))
    raise CalibrationError("not_written", f"--parent: expected a link like {known}, got {link!r}")


def _is(link: str, ends: tuple[str, ...]) -> bool:
    return any(link == end or link.endswith(f"_{end}") for end in ends)
