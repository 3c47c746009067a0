"""What a timeline shows of a run: figures, pictures, and words that are told when they change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from diagnostic_msgs.msg import KeyValue
from rclpy.serialization import serialize_message
from rosa_interfaces.msg import (
    ArmCommand,
    ArmStatus,
    Call,
    ComponentStatus,
    Decision,
    OperatorAlert,
    OperatorAudit,
    RobotStatus,
)
from sensor_msgs.msg import CompressedImage, JointState

from rosa_client.recording.bag import BagWriter
from rosa_server.bags.cdr import CdrError
from rosa_server.bags.records import ROS, Record, Track, records
from rosa_server.viewing.shown import ERROR, INFO, TELLERS, Figure, ShownWords, Still, Teller, finite
from tests.unit.server.trying.toy import world, write_bag


def told(path: Path, messages: list[tuple[str, Any]]) -> list[Any]:
    """What is shown of these messages, through a real recording."""
    bag = BagWriter(path)
    for number, (topic, message) in enumerate(messages):
        package = type(message).__module__.split(".")[0]
        channel = bag.channel(f"/panda0/{topic}", f"{package}/msg/{type(message).__name__}")
        bag.add(channel, 1000 + number, serialize_message(message))
    bag.close()
    teller = Teller()
    return [one for record in records(path) for one in finite(teller.shown(record))]


def test_every_message_of_a_robot_is_told(tmp_path: Path) -> None:
    alert = OperatorAlert(active=True, cause="slo_missed", reason="3 times in a row")
    shown = told(
        tmp_path / "run.mcap",
        [
            ("front/image_raw/compressed", CompressedImage(format="jpeg", data=b"\xff\xd8picture")),
            ("joint_states", JointState(name=["j1", "j2"], position=[0.5, float("nan")])),
            ("calls", Call(component="system1", ending="missed", duration_ms=300.0, slo_ms=300.0)),
            (
                "robot_status",
                RobotStatus(
                    state="executing",
                    server_connected=True,
                    components=[ComponentStatus(component="system1", missed=1)],
                ),
            ),
            ("arm_status", ArmStatus(state=ArmStatus.PLAYING)),
            ("arm_command", ArmCommand(kind=ArmCommand.HOLD, reason="late")),
            ("arm_command", ArmCommand(kind=ArmCommand.ALIVE)),
            ("decisions", Decision(action="stop_and_resend", cause="slo_missed", reason="late")),
            ("operator_alert", alert),
            ("operator_audit", OperatorAudit(choice="resume", decided_by="anna", why="ok", accepted=True)),
            ("prompts", KeyValue(key="system1", value="pick")),
        ],
    )
    assert shown == [
        Still("panda0/front", b"\xff\xd8picture", "image/jpeg"),
        Figure("panda0/joint_states/j1", 0.5),
        Figure("panda0/calls/system1/duration_ms", 300.0),
        Figure("panda0/calls/system1/slo_ms", 300.0),
        ShownWords("panda0/calls/system1/missed", "system1: missed after 300 of 300 ms", ERROR),
        ShownWords("panda0/robot_status/state", "executing"),
        ShownWords("panda0/robot_status/server", "connected"),
        Figure("panda0/robot_status/system1/missed", 1.0),
        ShownWords("panda0/arm_status/state", "playing"),
        ShownWords("panda0/arm_status/fault", "no fault"),
        ShownWords("panda0/arm_status/emergency_stop", "no emergency stop"),
        ShownWords("panda0/arm_command", "hold: late"),
        ShownWords("panda0/decisions", "stop_and_resend: slo_missed: late"),
        ShownWords("panda0/operator_alert", "waits for a person: slo_missed: 3 times in a row", ERROR),
        ShownWords("panda0/operator_audit", "anna: resume: ok", INFO),
        ShownWords("panda0/prompts/system1", "pick"),
    ]
    assert {kind for kind in TELLERS if kind.startswith("rosa_interfaces/")} == {
        f"rosa_interfaces/msg/{name}"
        for name in (
            "Call",
            "RobotStatus",
            "ArmStatus",
            "ArmCommand",
            "Decision",
            "OperatorAlert",
            "OperatorAudit",
        )
    }


def test_a_state_is_told_when_it_changes(tmp_path: Path) -> None:
    states = ["holding", "holding", "executing", "holding"]
    messages = [("robot_status", RobotStatus(state=state, server_connected=True)) for state in states]
    shown = told(tmp_path / "run.mcap", messages)
    assert [one.text for one in shown if one.path.endswith("/state")] == ["holding", "executing", "holding"]
    assert len([one for one in shown if one.path.endswith("/server")]) == 1


def test_a_message_of_another_version_that_lacks_a_field_is_named() -> None:
    definition = b"string action"  # of a decision, as if it had no cause yet
    track = Track("/panda0/decisions", "rosa_interfaces/msg/Decision", definition, ROS, "cdr")
    with pytest.raises(CdrError, match="another version, without the field 'cause'"):
        list(Teller().shown(Record(track, 1000, b"\0\1\0\0\2\0\0\0a\0")))


def test_a_whole_recording_is_told_also_when_it_was_cut_off(tmp_path: Path) -> None:
    write_bag(world(), tmp_path / "run.mcap")
    whole = (tmp_path / "run.mcap").read_bytes()
    (tmp_path / "cut.mcap").write_bytes(whole[: len(whole) - 200])
    kinds = {}
    for name in ("run", "cut"):
        teller = Teller()
        shown = [one for record in records(tmp_path / f"{name}.mcap") for one in teller.shown(record)]
        kinds[name] = [type(one) for one in shown]
        assert {Figure, Still, ShownWords} == set(kinds[name])
        assert all(np.isfinite(one.value) for one in shown if isinstance(one, Figure))
    assert kinds["run"] == kinds["cut"]
