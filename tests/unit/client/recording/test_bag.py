"""What is left of a bag whose end is not what was written."""

from __future__ import annotations

from pathlib import Path

from rosa_client.recording.bag import BagWriter, mend, read


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
