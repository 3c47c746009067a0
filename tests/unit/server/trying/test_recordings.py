"""Recordings are read without ROS: messages equal rclpy's, and steps are what the robot saw and did."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.serialization import serialize_message
from rosa_interfaces.msg import ActionChunk, ArmCommand
from sensor_msgs.msg import CameraInfo, JointState
from std_msgs.msg import Empty, Header

from rosa_client.recording.bag import BagWriter, schema_text
from rosa_server.bags.cdr import CdrError, decode
from rosa_server.bags.records import RecordingError
from rosa_server.trying.recordings import COMMAND, COMPRESSED, JOINT_STATE, RAW, decoded, read_steps
from tests.unit.server.trying.toy import world, write_bag


def test_messages_are_read_as_rclpy_writes_them() -> None:
    joints = JointState(header=Header(frame_id="a"), name=["j1", "äö"], position=[1.5, -2.0], effort=[])
    told = decode(
        "sensor_msgs/msg/JointState", schema_text("sensor_msgs/msg/JointState"), serialize_message(joints)
    )
    assert told["header"]["frame_id"] == "a"
    assert told["name"] == ["j1", "äö"]
    np.testing.assert_array_equal(told["position"], [1.5, -2.0])
    info = CameraInfo(height=3, width=4, k=np.arange(9.0), distortion_model="x")
    told = decode(
        "sensor_msgs/msg/CameraInfo", schema_text("sensor_msgs/msg/CameraInfo"), serialize_message(info)
    )
    np.testing.assert_array_equal(told["k"], np.arange(9.0))
    assert (told["height"], told["roi"]["do_rectify"]) == (3, False)
    status = DiagnosticStatus(level=b"\x01", name="n", values=[KeyValue(key="k", value="v")] * 2)
    kind = "diagnostic_msgs/msg/DiagnosticArray"
    told = decode(kind, schema_text(kind), serialize_message(DiagnosticArray(status=[status] * 3)))
    assert [one["values"][1]["value"] for one in told["status"]] == ["v"] * 3
    command = ArmCommand(kind=2, skip_s=0.25, joint_target_rad=[1.0], gripper_width_m=0.5, reason="why")
    kind = "rosa_interfaces/msg/ArmCommand"
    told = decode(kind, schema_text(kind), serialize_message(command))
    assert (told["kind"], told["skip_s"], told["gripper_width_m"], told["reason"]) == (2, 0.25, 0.5, "why")
    assert decode("std_msgs/msg/Empty", schema_text("std_msgs/msg/Empty"), serialize_message(Empty())) == {}


def test_cut_bytes_are_refused() -> None:
    kind = "sensor_msgs/msg/JointState"
    data = serialize_message(JointState(name=["j1"], position=[1.0]))
    whole = 52  # rclpy pads behind it
    assert decode(kind, schema_text(kind), data[:whole])["name"] == ["j1"]
    for length in range(whole):
        with pytest.raises(CdrError):
            decode(kind, schema_text(kind), data[:length])


@pytest.mark.parametrize("chunks", [True, False], ids=["rosa", "any robot"])
def test_steps_are_what_the_robot_saw_and_did(tmp_path: Path, chunks: bool) -> None:
    write_bag(world(joined=not chunks), tmp_path / "run.mcap", chunks)
    steps = read_steps(tmp_path / "run.mcap", ["front", "wrist"], limit=8)
    assert len(steps) >= 7, "of the first moment there may be no picture yet"
    if chunks:
        assert len(steps) == 8
        for found, meant in zip(steps, world(), strict=True):
            for camera, picture in meant.images.items():
                np.testing.assert_array_equal(found.images[camera], picture)
            np.testing.assert_allclose(
                found.state["joint_position"], meant.state["joint_position"], atol=1e-6
            )
            assert found.recorded is not None and meant.recorded is not None
            np.testing.assert_allclose(found.recorded.rows, meant.recorded.rows, atol=1e-5)
            assert found.recorded.step_s == pytest.approx(0.05)


def test_a_recording_that_was_cut_off_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    write_bag(world(), tmp_path / "run.mcap")
    whole = (tmp_path / "run.mcap").read_bytes()
    (tmp_path / "cut.mcap").write_bytes(whole[: len(whole) - 200])
    assert len(read_steps(tmp_path / "cut.mcap", ["front"], limit=8)) == 8


def test_what_cannot_be_used_is_refused_by_cause(tmp_path: Path) -> None:
    write_bag(world(2), tmp_path / "run.mcap")
    (tmp_path / "no.mcap").write_bytes(b"no recording")
    for name, cameras, joints, robot, cause in (
        ("no.mcap", [], (), "", "not_a_recording"),
        ("none.mcap", [], (), "", "not_a_recording"),
        ("run.mcap", ["top"], (), "", "unknown_camera"),
        ("run.mcap", [], ("j9",), "", "nothing_recorded"),
        ("run.mcap", [], (), "other", "several_robots"),
    ):
        with pytest.raises(RecordingError) as caught:
            read_steps(tmp_path / name, cameras, joints, robot)
        assert caught.value.cause == cause


@pytest.mark.parametrize(
    ("fingers", "grippers", "widths"),
    [
        (["left_finger_joint1", "left_finger_joint2", "right_finger_joint1", "right_finger_joint2"], 2, 2),
        (["left_inner_finger_joint", "right_inner_finger_joint"], 1, 1),
    ],
    ids=["two grippers", "one with a left and a right finger"],
)
@pytest.mark.parametrize("chunks", [True, False], ids=["rosa", "any robot"])
def test_each_gripper_has_a_width(
    tmp_path: Path, fingers: list[str], grippers: int, widths: int, chunks: bool
) -> None:
    """Both recorded widths stand beside the joints, in the order of the arms."""
    bag = BagWriter(tmp_path / "run.mcap")
    states, orders = bag.channel("/a/joint_states", JOINT_STATE), bag.channel("/a/arm_command", COMMAND)
    columns = ["j1", "j2", *(["left_gripper", "right_gripper"] if grippers == 2 else ["gripper"])]
    halves = [0.01, 0.01, 0.03, 0.03][: len(fingers)]
    for number in range(60):
        positions = [0.01 * number, 0.0, *halves]
        message = JointState(name=["j1", "j2", *fingers], position=positions)
        bag.add(states, int((1000 + 0.05 * number) * 1e9), serialize_message(message))
    if chunks:
        rows = np.tile([0.1, 0.2, 0.02, 0.06][: len(columns)], (4, 1))
        chunk = ActionChunk(step_s=0.05, horizon=4, names=columns, data=rows.ravel().tolist())
        bag.add(orders, int(1001e9), serialize_message(ArmCommand(kind=ArmCommand.PLAY, chunk=chunk)))
    bag.close()
    for step in read_steps(tmp_path / "run.mcap", [], limit=4, grippers=grippers):
        assert step.recorded is not None
        assert step.state["gripper_width"] == pytest.approx([0.02, 0.06][:widths])
        assert step.recorded.rows.shape[1] == 2 + widths
        assert step.recorded.rows[-1, 2:] == pytest.approx([0.02, 0.06][:widths])


def test_an_arm_that_is_told_with_and_without_its_fingers_is_read(tmp_path: Path) -> None:
    """As by the arm's own driver, and by a publisher that joins it with the gripper's."""
    bag = BagWriter(tmp_path / "run.mcap")
    own, joined = (bag.channel(f"{at}/joint_states", JOINT_STATE) for at in ("/a/arm", "/a"))
    for number in range(60):
        at_ns, positions = int((1000 + 0.05 * number) * 1e9), [0.01 * number, 0.0]
        bag.add(own, at_ns, serialize_message(JointState(name=["j1", "j2"], position=positions)))
        told = JointState(name=["j1", "j2", "finger_joint1"], position=[*positions, 0.02])
        bag.add(joined, at_ns + 1000, serialize_message(told))
    bag.close()
    for step in read_steps(tmp_path / "run.mcap", [], limit=4):
        assert step.recorded is not None
        assert step.recorded.rows.shape[1] == 3
        assert step.state["gripper_width"] == pytest.approx([0.02])


@pytest.mark.parametrize("joints", [(), ("j1", "j2")], ids=["as recorded", "named"])
@pytest.mark.parametrize(
    "first", [["finger_joint"], ["wheel"], ["j1", "j2"]], ids=["a gripper", "a base", "the arm"]
)
def test_the_joints_are_found_whoever_spoke_first(
    tmp_path: Path, first: list[str], joints: tuple[str, ...]
) -> None:
    """An arm and a gripper often have a publisher each, and some publish velocities alone."""
    bag = BagWriter(tmp_path / "run.mcap")
    states = bag.channel("/a/joint_states", JOINT_STATE)
    positions = [] if first == ["j1", "j2"] else [0.04]
    for number in range(60):
        at_ns = int((1000 + 0.05 * number) * 1e9)
        bag.add(states, at_ns, serialize_message(JointState(name=first, position=positions)))
        moved = JointState(name=["j1", "j2"], position=[0.01 * number, 0.0])
        bag.add(states, at_ns + 1000, serialize_message(moved))
    bag.close()
    steps = read_steps(tmp_path / "run.mcap", [], joints, limit=4)
    assert steps and all(step.state["joint_position"].shape == (2,) for step in steps)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (COMPRESSED, {"format": "jpeg", "data": b""}),
        (COMPRESSED, {"format": "jpeg", "data": b"no picture"}),
        (RAW, {"encoding": "rgb8", "height": 2, "width": 2, "step": 6, "data": bytes(11)}),
        (RAW, {"encoding": "rgb8", "height": 2, "width": 3, "step": 6, "data": bytes(12)}),
    ],
    ids=["empty", "damaged", "too few bytes", "rows that are too short"],
)
def test_a_picture_that_is_none_is_named(kind: str, message: dict[str, Any]) -> None:
    with pytest.raises(RecordingError) as refused:
        decoded(kind, message)
    assert refused.value.cause == "not_a_recording"
