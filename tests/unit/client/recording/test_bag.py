"""What is left of a bag whose end is not what was written."""

from __future__ import annotations

from pathlib import Path

import pytest

from rosa_client.recording.bag import BagError, BagWriter, mend, read


def test_what_came_before_the_zeros_that_a_loss_of_power_leaves_is_kept(tmp_path: Path) -> None:
    path, whole = tmp_path / "run.mcap", tmp_path / "whole.mcap"
    bag = BagWriter(path)
    channel = bag.channel("/a", "std_msgs/msg/Empty")
    sizes = []
    for number in range(3):
        bag.add(channel, number, b"\0\1\0\0\0")
        bag.flush()
        sizes.append(path.stat().st_size)
    bag.close()
    data = path.read_bytes()
    for end in range(sizes[1], sizes[2]):  # within the last chunk, or between two
        path.write_bytes(data[:end] + bytes(4096))
        assert mend(path, whole) in (2, 3)
        assert len(list(read(whole))) >= 2


def test_a_damaged_bag_is_named_and_what_helps(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    bag = BagWriter(path)
    channel = bag.channel("/a", "std_msgs/msg/Empty")
    bag.add(channel, 0, b"\0\1\0\0\0")
    bag.flush()
    whole = path.stat().st_size
    for number in range(100):
        bag.add(channel, number, b"\0\1\0\0\0")
    bag.close()
    data = path.read_bytes()
    begins = data.index(b"zstd", whole) + 20
    path.write_bytes(data[:begins] + bytes(len(data) - begins))
    records = read(path)
    assert next(records).topic == "/a"
    with pytest.raises(BagError) as refused:
        next(records)
    assert "damaged" in str(refused.value) and f"rosa_client.recording.bag {path}" in str(refused.value)
