"""A model of another's two arms: its own order of columns, a tool for each arm, a gripper for each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rosa_client.motion.action_space import ActionSpaces
from rosa_client.motion.chunk_check import check_chunk
from rosa_client.motion.limits import MotionLimits
from rosa_contract.config.robot import load_robot
from rosa_contract.errors import ConfigError
from rosa_contract.kinematics.chain import Chain
from rosa_contract.wire.messages import Output
from rosa_server.models.adapters.resolving import from_data
from rosa_server.models.adapters.unmapped import robot_file_problems
from rosa_server.models.backend import ModelInput
from tests.unit.server.models.adapters.test_adapted import Told, adapted

PAIR = str(Path(__file__).parents[5] / "configs" / "robots" / "bimanual_ur5e.yaml")
ROBOT = load_robot(PAIR)
HOME = np.array(ROBOT.home_rad)
SIDES = ("l", "r")
TOOLS = {f"{side}_{axis}": number for number, (side, axis) in enumerate((s, a) for s in SIDES for a in "xyz")}


def seen() -> ModelInput:
    state = {"joint_position": HOME.astype(np.float32), "gripper_width": np.array([0.085, 0.017], np.float32)}
    return ModelInput("system1", "fold", {}, state, "pair0")


def told(model: Told, **given: Any) -> dict[str, Any]:
    [output] = adapted(model, robot=PAIR, **given).infer([seen()])
    return dict(output.arrays)


def aloha() -> dict[str, Any]:
    """Seven columns of the left arm, then seven of the right: joints in degrees, and a gripper from 0 to 1."""
    names = [f"{side}{number}" for side in SIDES for number in range(7)]
    parts: list[dict[str, Any]] = []
    for side in (0, 1):
        mine = names[7 * side : 7 * side + 7]
        joints = list(range(6 * side, 6 * side + 6))
        parts.append({"to": "joints", "take": mine[:6], "joints": joints, "unit": "deg"})
        parts.append({"to": "gripper", "take": mine[6:], "grippers": [side], "gripper": "open_fraction"})
    return {"columns": {"action": names}, "parts": parts}


def test_its_own_order_of_arms_and_grippers_becomes_the_robots() -> None:
    row = [*np.degrees(HOME[:6]), 0.5, *np.degrees(HOME[6:]), 1.0]
    actions = told(Told(answer={"action": [row] * 3}), actions=aloha())["actions"]
    assert actions.shape == (3, 14)
    assert actions[0] == pytest.approx([*HOME, 0.0425, 0.085], abs=1e-5)


def test_two_grippers_of_one_part_have_a_column_each_with_its_own_sign_and_zero() -> None:
    names = [*[f"j{number}" for number in range(12)], "left", "right"]
    grippers = {"to": "gripper", "take": names[12:], "signs": [1, -1], "zeros": [0.01, 0.02]}
    actions = {"columns": {"action": names}, "parts": [{"to": "joints", "take": names[:12]}, grippers]}
    got = told(Told(answer={"action": [[*HOME, 0.03, -0.04]]}), actions=actions)["actions"]
    assert got[0] == pytest.approx([*HOME, 0.04, 0.06], abs=1e-5)


def test_its_state_takes_each_gripper_and_each_tool_apart() -> None:
    model = Told()
    state = {
        "left": [
            {"of": "tool_position", "arm": "left"},
            {"of": "gripper_width", "take": [0], "gripper": "open_fraction"},
        ],
        "right": [
            {"of": "tool_position", "arm": "right"},
            {"of": "gripper_width", "take": [1], "gripper": "open_fraction"},
        ],
        "widths": [{"of": "gripper_width", "gripper": "finger_pair"}],
    }
    told(model, state=state)
    [given] = model.given
    for limb, key, open_share in zip(ROBOT.limbs, ("left", "right"), (1.0, 0.2), strict=True):
        assert limb.chain is not None
        assert given.state[key][:3] == pytest.approx(Chain(limb.chain).tool(HOME[limb.joints]), abs=1e-5)
        assert given.state[key][3] == pytest.approx(open_share)
    assert given.state["widths"] == pytest.approx([0.0425, -0.0425, 0.0085, -0.0085])


def tool_parts(**more: Any) -> dict[str, Any]:
    parts = [
        {"to": "tool_position", "take": [f"{side}_{a}" for a in "xyz"], "arm": arm, "mode": "step_delta"}
        for side, arm in zip(SIDES, ("left", "right"), strict=True)
    ]
    return {"columns": {"action": list(TOOLS)}, "parts": parts, "step_s": 0.05, **more}


def test_each_tool_is_led_by_its_own_columns_here_and_on_the_robot() -> None:
    rows = np.zeros((2, 6), np.float32)
    rows[:, TOOLS["l_x"]], rows[:, TOOLS["r_z"]] = 0.01, 0.02
    here = told(Told(answer={"action": rows}), actions=tool_parts())["actions"]
    there = told(Told(answer={"action": rows}), actions=tool_parts(resolved_by="robot"))
    assert there["tool_step_delta"].shape == (2, 12)
    made = ActionSpaces(ROBOT).in_joints(Output(there), seen().state, (0.085, 0.017), 0.1).arrays["actions"]
    for chunk in (here, made):
        assert chunk.shape == (2, 14)
        for limb, shift in zip(ROBOT.limbs, ([0.02, 0, 0], [0, 0, 0.04]), strict=True):
            assert limb.chain is not None
            tool = Chain(limb.chain).tool
            assert tool(chunk[1, limb.joints]) == pytest.approx(tool(HOME[limb.joints]) + shift, abs=2e-3)
    assert here[:, 12:] == pytest.approx(np.tile([0.085, 0.017], (2, 1)), abs=1e-6), "no grippers: they stay"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda a: a["parts"].pop(), "nothing orders the tool of arm right"),
        (
            lambda a: a["parts"][0].update(arm="lefd"),
            "expected one of the robot's arms, left, right; got 'lefd'",
        ),
        (lambda a: a["parts"][0].pop("arm"), "expected one of the robot's arms, left, right; got ''"),
        (lambda a: a["parts"][1].update(arm="left"), "2 parts order the tool_position of arm left"),
        (
            lambda a: (a["columns"].update(grip=["g"]), a["parts"].append({"to": "gripper", "take": ["g"]})),
            "grippers 1 are ordered by nothing",
        ),
        (
            lambda a: (
                a["columns"].update(grip=["g"]),
                a["parts"].append({"to": "gripper", "take": ["g"], "grippers": [2]}),
            ),
            "the robot has grippers 0 to 1, got 2",
        ),
    ],
)
def test_an_arm_or_a_gripper_that_is_left_out_or_unknown_is_named(change: Any, says: str) -> None:
    actions = tool_parts()
    change(actions)
    with pytest.raises(ConfigError) as caught:
        told(Told(answer={}), actions=actions)
    assert says in str(caught.value)


def test_it_reaches_a_worker_unchanged_and_its_widths_are_compared_with_the_robots() -> None:
    made = adapted(Told(), robot=PAIR, actions=aloha())._resolved
    assert from_data(made.to_data()) == made
    assert robot_file_problems(made, [(0.0, 0.085), (0.0, 0.085)]) == []
    assert (
        "the robot's 0 to 0.085 m, 0 to 0.05 m" in robot_file_problems(made, [(0.0, 0.085), (0.0, 0.05)])[0]
    )


def test_degrees_and_percent_of_lerobots_so101_become_its_robot_files_rad_and_metres() -> None:
    path = str(Path(PAIR).parent / "so101.yaml")
    robot = load_robot(path)
    model = Told(answer={"action": [[10.0, -20.0, 30.0, 40.0, -50.0, 25.0]] * 8})
    picture = np.zeros((480, 640, 3), np.uint8)
    state = {
        "joint_position": np.array(robot.home_rad, np.float32),
        "gripper_width": np.array([0.05], np.float32),
    }
    one = ModelInput("system1", "pick", {"front": picture, "wrist": picture}, state, "so101")
    [output] = adapted(model, robot=path, preset="lerobot_so101").infer([one])
    [given] = model.given
    assert given.state["observation.state"] == pytest.approx([*np.degrees(robot.home_rad), 50.0], abs=1e-3)
    chunk, step_s = check_chunk(Output(output.arrays), MotionLimits.of(robot), 0.4)
    assert chunk[0] == pytest.approx([*np.radians([10, -20, 30, 40, -50]), 0.025], abs=1e-5)
    assert step_s == pytest.approx(1 / 30, abs=1e-4)
