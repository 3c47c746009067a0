"""What a run of the demo leaves behind is said as it is, also when its recorder did not see the end."""

from __future__ import annotations

from pathlib import Path

import pytest
from rclpy.serialization import serialize_message
from std_msgs.msg import String

from rosa_client.recording.bag import BagWriter, read
from rosa_sim.demo.demo import _bag


@pytest.fixture
def recorder(tmp_path: Path) -> BagWriter:
    bag = BagWriter(tmp_path / "run.mcap")
    bag.add(bag.channel("/fault", "std_msgs/msg/String"), 1, serialize_message(String(data="on")))
    bag.flush()
    return bag


def test_a_whole_bag_is_left_as_it_is(recorder: BagWriter) -> None:
    recorder.close()
    before = recorder.path.read_bytes()
    assert _bag(recorder.path).endswith("run.mcap (opens in Foxglove)")
    assert recorder.path.read_bytes() == before


def test_a_bag_whose_recorder_was_killed_gets_its_index_and_says_so(recorder: BagWriter) -> None:
    left = recorder.path.read_bytes()
    recorder.close()
    recorder.path.write_bytes(left)
    assert _bag(recorder.path).endswith("(its recorder ended before the run; opens in Foxglove)")
    assert [entry.message.data for entry in read(recorder.path)] == ["on"]
    assert _bag(recorder.path).endswith("run.mcap (opens in Foxglove)"), "it is whole now"


def test_a_recorder_that_never_wrote_leaves_no_bag_that_could_be_opened(tmp_path: Path) -> None:
    assert _bag(tmp_path / "run.mcap").startswith("no bag: ")
    (tmp_path / "run.mcap").touch()
    assert _bag(tmp_path / "run.mcap").startswith("no bag: ")
    assert [path.name for path in tmp_path.iterdir()] == ["run.mcap"]
