"""What an order may ask of the arm: joint limits, gripper range and workspace, checked in one place, before it moves.

The runtime checks a model's answer with it (`chunk_check.py`), and the arm every order again (`chunk_player.py`),
whoever sent it. An order that is outside is refused whole. What is beyond a limit by no more than the tolerance is
rounding: it is accepted, and the setpoint filter stops at the limit itself. The workspace has no tolerance.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rosa_client.motion.refusal import Refusal
from rosa_contract.config.robot import ChainSpec, GripperSpec, JointLimits, RobotSpec, WorkspaceSpec
from rosa_contract.kinematics.chain import Chain

Array = NDArray[np.float64]

JOINT_TOLERANCE_RAD = 1e-3  # float32 rounding of a model that aims exactly at a limit
GRIPPER_TOLERANCE_M = 1e-3
MAX_HORIZON = 1024
# Between two places that are checked on the path; the tool's arc is then off its chord by 1 mm.
PATH_STEP_RAD = 0.1
KEPT_PLACES = (
    8  # an arm at rest asks about the same places again and again, and one that moves about each twice
)
MAX_PLACES = 2048  # checked on the path of one order; a longer path is checked in longer steps


class MotionLimits:
    """The limits of one robot. Without a workspace only joints and gripper are limited."""

    def __init__(
        self,
        joints: JointLimits,
        gripper: GripperSpec,
        chain: ChainSpec | None = None,
        workspace: WorkspaceSpec | None = None,
    ) -> None:
        self.joints = joints
        self.gripper = gripper
        self._low = np.array([*joints.position_min_rad, gripper.min_m])
        self._high = np.array([*joints.position_max_rad, gripper.max_m])
        slack = np.array([*[JOINT_TOLERANCE_RAD] * joints.dof, GRIPPER_TOLERANCE_M])
        self._least, self._most = self._low - slack, self._high + slack  # that are accepted
        self._chain = Chain(chain) if chain is not None and workspace is not None else None
        self._box_low, self._box_high = np.zeros(3), np.zeros(3)
        if workspace is not None:
            self._box_low, self._box_high = np.array(workspace.min_m), np.array(workspace.max_m)
        self._box = self._box_low.tolist(), self._box_high.tolist()
        self._depths_m: dict[tuple[float, ...], float] = {}  # what `depth_m` answered last

    @classmethod
    def of(cls, spec: RobotSpec) -> MotionLimits:
        """The limits that a robot file sets."""
        return cls(spec.limits, spec.gripper, spec.chain, spec.workspace)

    def refusal(self, rows: ArrayLike, name: str, start_rad: ArrayLike | None = None) -> Refusal | None:
        """Why `rows` (n, dof + 1), joints in rad and gripper width in m, must not be moved to; None when they may.

        With `start_rad` (dof,) the straight joint-space path from there is checked too, unless the arm already stands
        outside its workspace: then it may come in. Causes: wrong_shape, joint_limit, gripper_range, workspace.
        """
        asked = np.asarray(rows, dtype=np.float64)
        dof = self.joints.dof
        if asked.ndim != 2 or asked.shape[1] != dof + 1 or not 1 <= len(asked) <= MAX_HORIZON:
            expected = f"1 to {MAX_HORIZON} waypoints of {dof} joints and a gripper width"
            return Refusal("wrong_shape", f"{name}: expected {expected}, got shape {asked.shape}")
        good = (asked >= self._least) & (asked <= self._most)  # not where NaN
        if not good.all():
            return self._value_refusal(asked, ~good, name)
        if self._chain is None:
            return None
        corners = np.clip(asked, self._low, self._high)[:, :dof]
        from_start = start_rad is not None and self.depth_m(start_rad) <= 0.0
        if from_start:
            corners = np.vstack([np.asarray(start_rad, dtype=np.float64), corners])
        return self._place_refusal(self._chain, corners, name, before=1 if from_start else 0)

    def depth_m(self, q_rad: ArrayLike) -> float:
        """How far the outermost point is outside the workspace at `q_rad` (dof,), m; 0 or less inside."""
        if self._chain is None:
            return -math.inf
        asked = tuple(np.asarray(q_rad, dtype=np.float64).tolist())
        depth_m = self._depths_m.get(asked)
        if depth_m is None:
            if len(self._depths_m) >= KEPT_PLACES:
                self._depths_m.clear()
            depth_m = self._depths_m[asked] = self._depth_m(self._chain, asked)
        return depth_m

    def _depth_m(self, chain: Chain, q_rad: tuple[float, ...]) -> float:
        (low_x, low_y, low_z), (high_x, high_y, high_z) = self._box
        depth_m = -math.inf
        for x, y, z in chain.places(q_rad):
            beyond_m = max(low_x - x, x - high_x, low_y - y, y - high_y, low_z - z, z - high_z)
            if not beyond_m <= depth_m:
                depth_m = beyond_m
        return depth_m

    def place(self, q_rad: ArrayLike) -> str:
        """Which point is outside the workspace at `q_rad` (dof,), and where, in words."""
        if self._chain is None:
            return "there is no workspace"
        return self._place_text(self._chain, self._chain.points(q_rad))

    def _outside(self, points: Array) -> Array:
        """How far each coordinate of `points` (..., 3) is outside the box, m; negative inside."""
        return np.maximum(self._box_low - points, points - self._box_high)

    def _value_refusal(self, asked: Array, bad: NDArray[np.bool_], name: str) -> Refusal:
        row, column = (int(i) for i in np.argwhere(bad)[0])
        is_gripper = column == self.joints.dof
        part, unit = ("gripper", "m") if is_gripper else (f"joint {column + 1}", "rad")
        return Refusal(
            "gripper_range" if is_gripper else "joint_limit",
            f"{name}: waypoint {row}, {part} is {asked[row, column]:g} {unit}, "
            f"expected {self._low[column]:g}..{self._high[column]:g} ({bad.sum()} of {bad.size} values are outside)",
        )

    def _place_refusal(self, chain: Chain, corners: Array, name: str, before: int) -> Refusal | None:
        """`corners` (n, dof) are the path in joint space; `before` of them come before the first waypoint."""
        way, leads_to, share = _way(corners)
        points = chain.points(way)  # (places, points, 3)
        bad = self._outside(points).max(axis=(1, 2)) > 0.0
        if not bad.any():
            return None
        first = int(np.argmax(bad))
        row = int(leads_to[first]) - before
        where = f"waypoint {row}" if share[first] == 1.0 else f"on the way to waypoint {row}"
        return Refusal("workspace", f"{name}: {where}, {self._place_text(chain, points[first])}")

    def _place_text(self, chain: Chain, points: Array) -> str:
        """`points` (points, 3)."""
        outside = self._outside(points)
        point, axis = (int(i) for i in np.unravel_index(int(outside.argmax()), outside.shape))
        return (
            f"{chain.names[point]} is at {'xyz'[axis]} = {points[point, axis]:.3f} m, expected "
            f"{self._box_low[axis]:g}..{self._box_high[axis]:g} (the workspace)"
        )


def _way(corners: Array) -> tuple[Array, NDArray[np.intp], Array]:
    """Places (m, dof) on the straight lines between `corners` (n, dof), beginning with the first corner; for each place
    the corner that it leads to, and the share of that line behind it (1 = at the corner)."""
    span = np.diff(corners, axis=0)
    pieces = np.ceil(np.abs(span).max(axis=1, initial=0.0) / PATH_STEP_RAD).astype(np.intp)
    pieces = np.maximum(pieces, 1)
    if pieces.sum() > MAX_PLACES:
        pieces = np.maximum(pieces * MAX_PLACES // int(pieces.sum()), 1)
    line = np.repeat(np.arange(len(span)), pieces)
    number = np.arange(len(line)) - np.repeat(np.cumsum(pieces) - pieces, pieces) + 1
    share = number / pieces[line]
    places = corners[line] + share[:, None] * span[line]
    return (
        np.vstack([corners[:1], places]),
        np.concatenate([[0], line + 1]),
        np.concatenate([[1.0], share]),
    )


# The moves that the runtime makes by itself. Their straight joint-space paths must stay in the workspace.
LEGS = (
    ("home", "clear"),
    ("safe", "clear"),
    ("clear", "drop"),
    ("drop", "clear"),
    ("clear", "home"),
    ("home", "safe"),
)


def pose_problems(spec: RobotSpec) -> list[str]:
    """Named poses, or the paths between them, that leave the robot's own workspace."""
    limits, poses = MotionLimits.of(spec), spec.poses
    width_m = spec.gripper.max_m
    problems = [limits.refusal([[*poses[name], width_m]], f"{name}_rad") for name in poses]
    if not any(problems):
        legs = [(start, end) for start, end in LEGS if start in poses and end in poses]
        problems = [
            limits.refusal([[*poses[b], width_m]], f"from {a}_rad to {b}_rad", poses[a]) for a, b in legs
        ]
    return [problem.reason for problem in problems if problem is not None]
