"""What an order may ask of the arm: joint limits, gripper ranges and workspaces, checked in one place, before it moves.

The runtime checks a model's answer with it (`chunk_check.py`), and the arm every order again (`chunk_player.py`),
whoever sent it. An order that is outside is refused whole. What is beyond a limit by no more than the tolerance is
rounding: it is accepted, and the setpoint filter stops at the limit itself. The workspace has no tolerance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rosa_client.motion.refusal import Refusal
from rosa_contract.config.body.chain import ChainSpec
from rosa_contract.config.robot import GripperSpec, JointLimits, Limb, RobotSpec, WorkspaceSpec
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


class _Zone:
    """The workspace of one arm: its chain and the box that the chain's points stay in."""

    def __init__(self, limb: Limb, chain: ChainSpec, box: WorkspaceSpec) -> None:
        self.joints = limb.joints
        self.chain = Chain(chain)
        self.names = tuple(f"{limb.name} {name}".strip() for name in self.chain.names)
        self.low, self.high = np.array(box.min_m), np.array(box.max_m)
        self._box = self.low.tolist(), self.high.tolist()

    def depth_m(self, q_rad: tuple[float, ...]) -> float:
        (low_x, low_y, low_z), (high_x, high_y, high_z) = self._box
        depth_m = -math.inf
        for x, y, z in self.chain.places(q_rad[self.joints]):
            beyond_m = max(low_x - x, x - high_x, low_y - y, y - high_y, low_z - z, z - high_z)
            if not beyond_m <= depth_m:
                depth_m = beyond_m
        return depth_m

    def outside(self, points: Array) -> Array:
        """How far each coordinate of `points` (..., 3) is outside the box, m; negative inside."""
        return np.asarray(np.maximum(self.low - points, points - self.high))

    def text(self, points: Array) -> str:
        """`points` (points, 3)."""
        outside = self.outside(points)
        point, axis = (int(i) for i in np.unravel_index(int(outside.argmax()), outside.shape))
        return (
            f"{self.names[point]} is at {'xyz'[axis]} = {points[point, axis]:.3f} m, expected "
            f"{self.low[axis]:g}..{self.high[axis]:g} (the workspace)"
        )


class MotionLimits:
    """The limits of one robot, however many arms and grippers it has. Without a workspace only joints and grippers are
    limited. Arms are not kept apart from each other but by their workspaces."""

    def __init__(
        self, joints: JointLimits, grippers: Sequence[GripperSpec], limbs: Sequence[Limb] = ()
    ) -> None:
        self.joints = joints
        self.grippers = tuple(grippers)
        self.closed_m = np.array([one.min_m for one in grippers])  # (grippers,)
        self.open_m = np.array([one.max_m for one in grippers])
        self._low = np.array([*joints.position_min_rad, *self.closed_m])
        self._high = np.array([*joints.position_max_rad, *self.open_m])
        slack = np.array([*[JOINT_TOLERANCE_RAD] * joints.dof, *[GRIPPER_TOLERANCE_M] * len(self.grippers)])
        self._min, self._max = self._low - slack, self._high + slack  # that are accepted
        self._zones = [
            _Zone(limb, limb.chain, limb.workspace)
            for limb in limbs
            if limb.chain is not None and limb.workspace is not None
        ]
        self._depths_m: dict[tuple[float, ...], float] = {}  # what `depth_m` answered last

    @classmethod
    def of(cls, spec: RobotSpec) -> MotionLimits:
        """The limits that a robot file sets."""
        return cls(spec.limits, tuple(spec.grippers.values()), spec.limbs)

    @property
    def columns(self) -> int:
        """Of a row: the joints, then the width of each gripper."""
        return len(self._low)

    def refusal(self, rows: ArrayLike, name: str, start_rad: ArrayLike | None = None) -> Refusal | None:
        """Why `rows` (n, columns), joints in rad, then widths in m, must not be moved to; None when they may.

        With `start_rad` (dof,) the straight joint-space path from there is checked too, unless the arm already stands
        outside its workspace: then it may come in. Causes: wrong_shape, joint_limit, gripper_range, workspace.
        """
        asked = np.asarray(rows, dtype=np.float64)
        dof = self.joints.dof
        if asked.ndim != 2 or asked.shape[1] != self.columns or not 1 <= len(asked) <= MAX_HORIZON:
            widths = {0: "", 1: " and a gripper width"}.get(
                len(self.grippers), f" and {len(self.grippers)} gripper widths"
            )
            expected = f"1 to {MAX_HORIZON} waypoints of {dof} joints{widths}"
            return Refusal("wrong_shape", f"{name}: expected {expected}, got shape {asked.shape}")
        good = (asked >= self._min) & (asked <= self._max)  # not where NaN
        if not good.all():
            return self._value_refusal(asked, ~good, name)
        if not self._zones:
            return None
        corners = np.clip(asked, self._low, self._high)[:, :dof]
        from_start = start_rad is not None and self.depth_m(start_rad) <= 0.0
        if from_start:
            corners = np.vstack([np.asarray(start_rad, dtype=np.float64), corners])
        return self._place_refusal(corners, name, before=1 if from_start else 0)

    def depth_m(self, q_rad: ArrayLike) -> float:
        """How far the outermost point is outside the workspace at `q_rad` (dof,), m; 0 or less inside."""
        if not self._zones:
            return -math.inf
        asked = tuple(np.asarray(q_rad, dtype=np.float64).tolist())
        depth_m = self._depths_m.get(asked)
        if depth_m is None:
            if len(self._depths_m) >= KEPT_PLACES:
                self._depths_m.clear()
            depth_m = self._depths_m[asked] = max(zone.depth_m(asked) for zone in self._zones)
        return depth_m

    def place(self, q_rad: ArrayLike) -> str:
        """Which point is outside the workspace at `q_rad` (dof,), and where, in words."""
        if not self._zones:
            return "there is no workspace"
        asked = np.asarray(q_rad, dtype=np.float64)
        worst = max(self._zones, key=lambda zone: zone.depth_m(tuple(asked.tolist())))
        return worst.text(worst.chain.points(asked[worst.joints]))

    def _value_refusal(self, asked: Array, bad: NDArray[np.bool_], name: str) -> Refusal:
        row, column = (int(i) for i in np.argwhere(bad)[0])
        is_gripper = column >= self.joints.dof
        which = f" {column - self.joints.dof + 1}" if len(self.grippers) > 1 else ""
        part, unit = (f"gripper{which}", "m") if is_gripper else (f"joint {column + 1}", "rad")
        return Refusal(
            "gripper_range" if is_gripper else "joint_limit",
            f"{name}: waypoint {row}, {part} is {asked[row, column]:g} {unit}, "
            f"expected {self._low[column]:g}..{self._high[column]:g} ({bad.sum()} of {bad.size} values are outside)",
        )

    def _place_refusal(self, corners: Array, name: str, before: int) -> Refusal | None:
        """`corners` (n, dof) are the path in joint space; `before` of them come before the first waypoint."""
        way, leads_to, share = _way(corners)
        found: tuple[int, str] | None = None  # the first place outside
        for zone in self._zones:
            points = zone.chain.points(way[:, zone.joints])  # (places, points, 3)
            bad = ~(zone.outside(points).max(axis=(1, 2)) <= 0.0)  # also where NaN
            first = int(np.argmax(bad))
            if bad[first] and (found is None or first < found[0]):
                found = first, zone.text(points[first])
        if found is None:
            return None
        first, text = found
        row = int(leads_to[first]) - before
        where = f"waypoint {row}" if share[first] == 1.0 else f"on the way to waypoint {row}"
        return Refusal("workspace", f"{name}: {where}, {text}")


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
    widths_m = limits.open_m
    problems = [limits.refusal([[*poses[name], *widths_m]], f"{name}_rad") for name in poses]
    if not any(problems):
        legs = [(start, end) for start, end in LEGS if start in poses and end in poses]
        problems = [
            limits.refusal([[*poses[b], *widths_m]], f"from {a}_rad to {b}_rad", poses[a]) for a, b in legs
        ]
    return [problem.reason for problem in problems if problem is not None]
