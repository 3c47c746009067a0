"""The picture of a run is written from its bags, whole or cut off."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import cv2
import pytest
from rclpy.serialization import serialize_message
from rosa_interfaces.msg import (
    ArmStatus,
    OperatorAlert,
)
from std_msgs.msg import String

from rosa_client.recording.bag import BagError, BagWriter, read
from rosa_sim.timeline import write
from rosa_sim.timeline.__main__ import newest
from tests.unit.sim.timeline.story import T0, Said, call, decision, status


def record(path: Path, story: Iterable[Said]) -> Path:
    bag = BagWriter(path)
    channels: dict[str, int] = {}
    for at_s, topic, message in sorted(story, key=lambda one: one[0]):
        if topic not in channels:
            package = type(message).__module__.split(".")[0]
            channels[topic] = bag.channel(topic, f"{package}/msg/{type(message).__name__}")
        bag.add(channels[topic], int((T0 + at_s) * 1e9), serialize_message(message))
    bag.close()
    return path


def story_of_a_killed_server() -> list[Said]:
    return [
        *status((0, "idle"), (1, "inferring"), (4, "waiting_for_human"), (9, "idle"), until_s=10),
        *(call(2 + 0.6 * number, "missed", 500) for number in range(3)),
        decision(2.0, "stop_and_resend", "slo_missed", "system1"),
        (1.5, "/panda/fault", String(data="server_killed")),
        (6.0, "/panda/fault", String(data="")),
        (4.0, "/panda/operator_alert", OperatorAlert(id=1, active=True, cause="x" * 200)),
        (0.5, "/panda/arm_status", ArmStatus(state=99)),  # an arm of another day
    ]


@pytest.mark.slow
def test_the_picture_is_written_from_a_bag(tmp_path: Path) -> None:
    bag = record(tmp_path / "run.mcap", story_of_a_killed_server())
    picture = cv2.imread(str(write(bag, tmp_path / "timeline.png")))
    height, width, _ = picture.shape
    assert width == 2000
    assert 400 < height < 1500
    assert (picture == (255, 255, 255)).all(axis=2).mean() < 0.95, "something was drawn"


@pytest.mark.slow
def test_two_bags_of_one_run_make_one_picture_with_a_group_for_each_robot(tmp_path: Path) -> None:
    one = record(tmp_path / "left.mcap", status((0, "inferring"), until_s=5, name="left"))
    two = record(tmp_path / "right.mcap", status((0, "inferring"), until_s=5, name="right"))
    alone = cv2.imread(str(write(one, tmp_path / "alone.png")))
    both = cv2.imread(str(write([one, two], tmp_path / "both.png")))
    assert both.shape[0] > alone.shape[0] + 100


def test_a_bag_that_was_cut_off_is_drawn_as_far_as_it_goes(tmp_path: Path) -> None:
    bag = BagWriter(tmp_path / "run.mcap")
    channel = bag.channel("/panda/robot_status", "rosa_interfaces/msg/RobotStatus")
    for at_s, _, message in status((0, "inferring"), until_s=5):
        bag.add(channel, int((T0 + at_s) * 1e9), serialize_message(message))
        bag.flush()
    left = bag.path.read_bytes()  # before it is closed: its recorder was killed
    bag.close()
    bag.path.write_bytes(left[: len(left) // 2])
    assert 10 < len(list(read(bag.path))) < 50
    assert write(bag.path, tmp_path / "timeline.png").stat().st_size > 1000


def test_what_is_no_bag_or_holds_no_robot_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "no.mcap").write_text("what is this")
    with pytest.raises(BagError, match="not an MCAP bag"):
        write(tmp_path / "no.mcap", tmp_path / "timeline.png")
    empty = record(tmp_path / "empty.mcap", [(0, "/panda/fault", String(data="link_drop"))])
    with pytest.raises(BagError, match="expected the robot_status of at least one robot"):
        write(empty, tmp_path / "timeline.png")


def test_the_newest_run_is_found(tmp_path: Path) -> None:
    assert newest(tmp_path) == []
    for number, run in enumerate(("2026-01-01", "2026-01-02")):
        bag = record(tmp_path / run / "run.mcap", status((0, "idle"), until_s=1))
        os.utime(bag.parent, (number, number))
    assert newest(tmp_path) == [tmp_path / "2026-01-02" / "run.mcap"]
