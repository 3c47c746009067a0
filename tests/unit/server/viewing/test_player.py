"""A recording plays in its own time: faster, slower, from anywhere, and again; nothing is left out or told twice."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rosa_server.bags.records import Record, Track
from rosa_server.viewing.player import MAX_IN_ONE_STEP, MAX_SPEED, MIN_SPEED, RecordingPlayer

JOINTS = Track("/r/joints", "x/msg/Y", b"", "ros2msg", "cdr")
STATUS = Track("/r/status", "x/msg/Z", b"", "ros2msg", "cdr")
FROM_NS = 1_000_000_000_000


def told() -> Iterator[Record]:
    """Joints every 100 ms for 10 s, and a status at the start."""
    yield Record(STATUS, FROM_NS, b"status")
    for number in range(101):
        yield Record(JOINTS, FROM_NS + number * 100_000_000, str(number).encode())


@pytest.fixture
def player() -> RecordingPlayer:
    return RecordingPlayer(told, FROM_NS, FROM_NS + 10_000_000_000, now_s=50.0)


def names(records: list[Record]) -> list[str]:
    return [record.data.decode() for record in records]


def test_everything_comes_once_and_when_it_is_due(player: RecordingPlayer) -> None:
    assert names(player.due(50.0)) == ["status", "0"]
    assert player.due(50.05) == []
    assert names(player.due(50.35)) == ["1", "2", "3"]
    assert names(player.due(99.0)) == [str(number) for number in range(4, 101)]
    assert player.ended(99.0) and player.due(100.0) == []


def test_pause_and_speed_move_time_as_they_should(player: RecordingPlayer) -> None:
    player.due(51.0)
    player.pause(51.0)
    assert player.at_ns(80.0) == FROM_NS + 1_000_000_000
    player.play(80.0)
    player.set_speed(80.5, 2.0)
    assert player.at_ns(81.5) == FROM_NS + 3_500_000_000
    for wanted, given in ((0.0, MIN_SPEED), (1e9, MAX_SPEED)):
        player.set_speed(81.5, wanted)
        assert player.speed == given


@pytest.mark.parametrize("before_s", [51.0, 58.0], ids=["on", "back"])
def test_after_a_seek_a_viewer_sees_the_newest_of_each_topic_and_what_follows(
    player: RecordingPlayer, before_s: float
) -> None:
    player.due(before_s)
    newest = player.seek(before_s, FROM_NS + 4_050_000_000)
    told_again = {record.track: record.data for record in newest}
    assert told_again[JOINTS] == b"40"
    assert (STATUS in told_again) is (before_s == 58.0), "what the viewer had seen before is still there"
    assert names(player.due(before_s + 0.1)) == ["41"]


def test_a_seek_keeps_within_the_recording_and_play_at_the_end_begins_again(player: RecordingPlayer) -> None:
    player.seek(50.0, 0)
    assert player.at_ns(50.0) == FROM_NS
    player.seek(50.0, FROM_NS * 9)
    player.due(50.0)
    assert player.ended(50.0)
    player.play(51.0)
    assert names(player.due(51.0)) == ["status", "0"]


def test_so_much_at_once_and_no_more() -> None:
    crowd = [Record(JOINTS, FROM_NS, b"x")] * (MAX_IN_ONE_STEP + 7)
    player = RecordingPlayer(lambda: iter(crowd), FROM_NS, FROM_NS + 1, now_s=0.0)
    assert len(player.due(1.0)) == MAX_IN_ONE_STEP
    assert len(player.due(1.0)) == 7
