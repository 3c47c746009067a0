"""How long a recording lasts, with its index and without one."""

from __future__ import annotations

from pathlib import Path

import pytest

from rosa_client.recording.bag import BagWriter
from rosa_server.bags.records import RecordingError, records, span


def bag(path: Path, count: int = 3) -> Path:
    writer = BagWriter(path)
    channel = writer.channel("/a", "std_msgs/msg/Empty")
    for number in range(count):
        writer.add(channel, 1000 + number * 10, b"\0\1\0\0\0")
    writer.close()
    return path


def test_a_recording_lasts_from_its_first_to_its_last_message(tmp_path: Path) -> None:
    whole = bag(tmp_path / "whole.mcap")
    assert span(whole) == (1000, 1020)
    cut = tmp_path / "cut.mcap"
    cut.write_bytes(whole.read_bytes()[:-120])
    assert span(cut) == (1000, 1020), "its index is gone"
    [track] = {record.track for record in records(cut)}
    assert (track.topic, track.kind, track.encoding) == ("/a", "std_msgs/msg/Empty", "cdr")


def test_what_is_no_recording_is_named(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no recording")
    for path in (tmp_path / "text", tmp_path / "missing", bag(tmp_path / "empty.mcap", 0)):
        with pytest.raises(RecordingError) as refused:
            span(path)
        assert refused.value.cause == "not_a_recording"
        assert str(path) in str(refused.value)


@pytest.mark.parametrize("at", ["compression", "chunk"])
def test_a_damaged_recording_is_named(tmp_path: Path, at: str) -> None:
    data = bytearray(bag(tmp_path / "whole.mcap", 100).read_bytes())
    begins = data.index(b"zstd") + (12 if at == "chunk" else 0)
    data[begins : begins + 8] = b"\xff" * 8
    damaged = tmp_path / "damaged.mcap"
    damaged.write_bytes(data)
    with pytest.raises(RecordingError) as refused:
        list(records(damaged))
    assert refused.value.cause == "not_a_recording" and str(damaged) in str(refused.value)
