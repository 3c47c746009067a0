"""What may be asked of the arm: joints, gripper and the workspace box, before anything moves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rosa_client.motion.chunk_check import BadChunk, check_chunk
from rosa_client.motion.limits import JOINT_TOLERANCE_RAD, MotionLimits, pose_problems
from rosa_contract.config.robot import WITHOUT_GRIPPER, WorkspaceSpec, load_robot
from rosa_contract.kinematics.chain import Chain
from rosa_contract.wire.messages import Output
from rosa_server.models.panda.kinematics import inverse, inverse_path
from tests.unit.client.refusals import because

SPEC = load_robot(Path(__file__).parents[4] / "configs" / "robots" / "panda.yaml")
HOME = np.array(SPEC.home_rad)


@pytest.fixture(scope="module")
def limits() -> MotionLimits:
    return MotionLimits.of(SPEC)


def rows(*places: tuple[float, float, float]) -> np.ndarray:
    """Waypoints (n, 8) with the tool at these places, pointing down, the gripper open."""
    q = np.array([inverse(np.array(place), HOME, iterations=80) for place in places])
    return np.hstack([q, np.full((len(q), 1), 0.08)])


def test_a_chunk_inside_is_taken(limits: MotionLimits) -> None:
    assert limits.refusal(rows((0.5, 0.0, 0.2), (0.5, 0.0, 0.018)), "chunk", HOME) is None


def test_a_waypoint_below_the_table_is_named_with_point_and_limit(limits: MotionLimits) -> None:
    low = rows((0.5, 0.0, 0.1), (0.5, 0.0, 0.05), (0.5, 0.0, -0.02))
    said = because("workspace", limits.refusal(low, "chunk"))
    assert said == "chunk: waypoint 2, tool is at z = -0.020 m, expected 0.005..0.85 (the workspace)"


def test_the_elbow_may_not_leave_either(limits: MotionLimits) -> None:
    """The tool is in the box, the elbow leans back out of it."""
    back = np.array([[0.0, -1.7, 0.0, -2.5, 0.0, 2.0, 0.785, 0.08]])
    assert "elbow is at x = -0.3" in because("workspace", limits.refusal(back, "target"))


def test_the_way_to_a_target_counts_not_only_the_target(limits: MotionLimits) -> None:
    """From one side to the other past the front edge: both ends are inside, the middle of the arc is not."""
    left, right = rows((0.55, 0.5, 0.1)), rows((0.55, -0.5, 0.1))
    narrow = MotionLimits.of(replace(SPEC, workspace=WorkspaceSpec((-0.3, -0.55, 0.0), (0.65, 0.55, 0.9))))
    assert narrow.refusal(left, "target") is None
    assert narrow.refusal(right, "target") is None
    said = because("workspace", narrow.refusal(right, "target", left[0, :7]))
    assert "target: on the way to waypoint 0, flange is at x = 0.66" in said
    assert "on the way to waypoint 1" in because(
        "workspace", narrow.refusal(np.vstack([left, right]), "chunk")
    )


def test_an_arm_that_stands_outside_may_come_in(limits: MotionLimits) -> None:
    outside = rows((0.5, 0.0, -0.05))[0, :7]
    assert limits.depth_m(outside) == pytest.approx(0.055, abs=1e-3)
    assert "tool is at z = -0.05" in limits.place(outside)
    assert limits.refusal(rows((0.5, 0.0, 0.2)), "target", outside) is None


def test_without_a_workspace_only_joints_and_gripper_are_limited() -> None:
    free = MotionLimits.of(replace(SPEC, workspace=None))
    assert free.refusal(rows((0.5, 0.0, -0.02)), "chunk", HOME) is None
    assert "gripper is 0.2 m, expected 0..0.08" in because(
        "gripper_range", free.refusal([[*HOME, 0.2]], "target")
    )


def test_core_and_arm_refuse_the_same_chunk_with_the_same_tolerance(limits: MotionLimits) -> None:
    limit = SPEC.limits.position_max_rad[5]
    for beyond, taken in ((0.9 * JOINT_TOLERANCE_RAD, True), (1.1 * JOINT_TOLERANCE_RAD, False)):
        chunk = np.array([[*HOME, 0.04]])
        chunk[0, 5] = limit + beyond
        free = MotionLimits.of(replace(SPEC, workspace=None))
        assert (free.refusal(chunk, "chunk") is None) is taken
        if taken:
            check_chunk(Output(arrays={"actions": chunk}), free, 0.4)
        else:
            with pytest.raises(BadChunk, match="waypoint 0, joint 6") as bad:
                check_chunk(Output(arrays={"actions": chunk}), free, 0.4)
            assert bad.value.refusal.cause == "joint_limit"
    with pytest.raises(BadChunk, match="the workspace") as bad:
        check_chunk(Output(arrays={"actions": rows((0.5, 0.0, -0.02))}), MotionLimits.of(SPEC), 0.4)
    assert bad.value.refusal.cause == "workspace"


def test_an_arm_without_a_gripper_is_answered_with_its_joints_only() -> None:
    bare = MotionLimits.of(replace(SPEC, gripper=WITHOUT_GRIPPER))
    actions, _ = check_chunk(Output(arrays={"actions": np.array([HOME, HOME])}), bare, 0.4)
    assert actions.tolist() == [list(HOME)] * 2
    with pytest.raises(
        BadChunk, match=r"expected \(1..1024, 7\), got \(1, 8\): the joints, no gripper"
    ) as bad:
        check_chunk(Output(arrays={"actions": np.array([[*HOME, 0.0]])}), bare, 0.4)
    assert bad.value.refusal.cause == "wrong_shape"
    with pytest.raises(BadChunk, match=r"\(1..1024, 8\), got \(1, 7\): the joints, then the gripper's width"):
        check_chunk(Output(arrays={"actions": np.array([HOME])}), MotionLimits.of(SPEC), 0.4)


@pytest.mark.parametrize(
    ("arrays", "cause"),
    [
        ({}, "no_actions"),
        ({"actions": np.zeros((2, 3))}, "wrong_shape"),
        ({"actions": np.full((2, 8), np.nan)}, "not_finite"),
        ({"actions": np.array([[*HOME, 0.04]]), "step_s": np.array([0.0])}, "step_time"),
        ({"actions": np.array([[*HOME, 0.4]])}, "gripper_range"),
    ],
)
def test_a_bad_chunk_says_why_in_one_word(arrays: dict[str, np.ndarray], cause: str) -> None:
    with pytest.raises(BadChunk) as bad:
        check_chunk(Output(arrays=arrays), MotionLimits.of(SPEC), 0.4)
    assert bad.value.refusal.cause == cause


def test_the_named_poses_and_the_ways_between_them_are_inside() -> None:
    assert pose_problems(SPEC) == []
    low = replace(SPEC, workspace=WorkspaceSpec((-0.25, -0.55, 0.1), (0.78, 0.55, 0.85)))
    assert any("drop_rad" in problem and "tool is at z = 0.05" in problem for problem in pose_problems(low))


def test_where_a_place_is_no_number_the_arm_is_not_inside() -> None:
    """As with links of a length that no float adds up."""
    assert SPEC.chain is not None
    endless = replace(SPEC, chain=replace(SPEC.chain, a_m=(1e308,) * 8))
    with np.errstate(all="ignore"):
        said = pose_problems(endless)
    assert len(said) == len(SPEC.poses) and "home_rad: waypoint 0, elbow is at x = nan m" in said[0]


def test_the_box_leaves_room_around_everything_that_the_task_needs(limits: MotionLimits) -> None:
    """Mat and bin from the table to the travel height, with the hand upright: where the expert and the policy move."""
    grid = np.array(
        [(x, y, z) for x in (0.33, 0.5, 0.66) for y in (-0.33, 0.0, 0.38) for z in (0.009, 0.2, 0.39)]
    )
    for place in grid:
        assert limits.depth_m(inverse(place, HOME, iterations=80)) < -0.003, place


def test_a_chunk_that_goes_down_to_the_cube_is_accepted(limits: MotionLimits) -> None:
    path = np.linspace([0.47, 0.0, 0.3], [0.5, 0.1, 0.05], 16)[None]
    chunk = np.hstack([inverse_path(path, HOME[None])[0], np.full((16, 1), 0.08)])
    assert limits.refusal(chunk, "chunk", HOME) is None


def test_the_longest_and_wildest_chunk_is_refused(limits: MotionLimits) -> None:
    low, high = np.array(SPEC.limits.position_min_rad), np.array(SPEC.limits.position_max_rad)
    wild = np.array([[*(low if i % 2 else high), 0.0] for i in range(1024)])
    assert limits.refusal(wild, "chunk", HOME)


def test_the_watched_points_are_those_of_the_robot_file() -> None:
    assert SPEC.chain is not None
    assert Chain(SPEC.chain).names == ("elbow", "wrist", "flange", "tool")
