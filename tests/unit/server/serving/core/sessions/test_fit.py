"""Whether a robot fits the models of its task: all that does not is in one answer."""

from __future__ import annotations

from dataclasses import replace

from rosa_contract.wire.messages import CameraInfo, Hello
from rosa_server.models.backend import InputSpec
from rosa_server.serving.core.sessions.fit import unfit

CAMERAS = {
    "front": CameraInfo(height=480, width=640, encoding="jpeg"),
    "side": CameraInfo(height=96, width=96, encoding="jpeg"),
}
HELLO = Hello("r", "pick", CAMERAS, {"joint_position": 6, "gripper_width": 1})


def test_everything_that_a_robot_lacks_is_named_at_once() -> None:
    needs = InputSpec({"front": (96, 96), "wrist": (96, 96)}, {"joint_position": 7, "force": 6})
    refused = unfit(HELLO, {"system1": "pi", "monitor": "look"}, {"pi": needs, "look": needs}.get)
    assert refused is not None and refused.cause == "wrong_image_shape"
    for component in ("system1 (pi)", "monitor (look)"):
        assert f"{component} needs camera 'front' as 96x96 px (width x height); got 640x480" in refused.reason
        assert f"{component} needs camera 'wrist'; the robot has front, side" in refused.reason
        assert f"{component} needs state 'joint_position' with 7 values; got 6" in refused.reason
        assert f"{component} needs state 'force' with 6 values; got none" in refused.reason


def test_a_model_that_resizes_takes_any_picture_up_to_its_limit() -> None:
    needs = InputSpec({"front": (600, 800)}, {}, frozenset({"front"}))
    assert unfit(HELLO, {"system1": "pi"}, {"pi": needs}.get) is None
    small = InputSpec({"front": (400, 800)}, {}, frozenset({"front"}))
    refused = unfit(HELLO, {"system1": "pi"}, {"pi": small}.get)
    assert refused is not None and "takes camera 'front' up to 800x400 px" in refused.reason


def test_what_an_adapter_neither_takes_nor_calls_unused_is_named() -> None:
    needs = InputSpec({"front": (480, 640)}, {"joint_position": 6}, unused=frozenset({"gripper_width"}))
    refused = unfit(HELLO, {"system1": "pi"}, {"pi": needs}.get)
    assert refused is not None and "takes nothing of the robot's camera side" in refused.reason
    assert "gripper" not in refused.reason
    unused = frozenset({"gripper_width", "side"})
    assert (
        unfit(HELLO, {"system1": "pi"}, {"pi": InputSpec(needs.images, needs.state, unused=unused)}.get)
        is None
    )


def test_a_robot_that_does_not_carry_out_the_space_of_an_answer_is_refused() -> None:
    needs = InputSpec(actions="tool_step_delta")
    refused = unfit(HELLO, {"system1": "pi"}, {"pi": needs}.get)
    assert refused is not None and refused.cause == "wrong_actions"
    assert "answers tool_step_delta; the robot carries out only joint positions" in refused.reason
    joints = replace(HELLO, actions=("joint_delta",))
    refused = unfit(joints, {"system1": "pi"}, {"pi": needs}.get)
    assert refused is not None and "only joint positions and joint_delta" in refused.reason
    able = replace(HELLO, actions=("joint_delta", "tool_step_delta"))
    assert unfit(able, {"system1": "pi"}, {"pi": needs}.get) is None
