"""Episodes become rows, and labels stay readable."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rosa_sim.timeline.lanes import Mark, robots
from rosa_sim.timeline.rows import MAX_LEVELS, TimelineRow, labels, levels, rows, title
from tests.unit.sim.timeline.story import T0, call, only, said, status


def test_every_episode_has_a_row_and_a_long_one_goes_on_in_the_next() -> None:
    story = status((0, "idle"), (1, "inferring"), (9, "idle"), (11, "inferring"), (60, "idle"), until_s=62)
    calls = [call(at_s, "in_time", 100) for at_s in range(12, 60)]
    robot = only([*story, *calls])
    found = rows([robot], row_s=20)
    assert [(round(row.start_s - T0, 1), round(row.end_s - T0, 1)) for row in found] == [
        (0.5, 9.5),
        (10.5, 30.5),
        (30.5, 50.5),
        (50.5, 60.5),
    ]
    assert {round(row.zero_s - T0, 1) for row in found} == {1.0, 11.0}, "the time of an episode goes on"
    assert title(robot, found[0], named=False) == "episode 1: pick and place, not ended after 8.0 s"
    assert "(continued)" in title(robot, found[-1], named=True)


def test_a_night_without_an_operator_is_left_out_but_not_hidden() -> None:
    story = status((0, "inferring"), (5, "waiting_for_human"), (600, "inferring"), until_s=602)
    found = rows([only(story)], row_s=20)
    assert len(found) == 2
    assert "without an event" in found[1].note
    assert found[-1].end_s - T0 == pytest.approx(602, abs=1)


def test_two_robots_at_the_same_time_share_a_row() -> None:
    story = [
        *status((0, "idle"), (1, "inferring"), (8, "idle"), until_s=20, name="left"),
        *status((0, "idle"), (5, "inferring"), (12, "idle"), until_s=20, name="right"),
    ]
    found = robots(said(*story))
    (row,) = rows(found)
    assert (row.start_s - T0, row.end_s - T0) == pytest.approx((0.5, 12.5))
    assert title(found[1], row, named=True).startswith("right:  episode 1")


def test_a_recording_without_a_task_is_one_row() -> None:
    (row,) = rows([only(status((0, "idle"), until_s=3))])
    assert isinstance(row, TimelineRow)


def test_equal_events_in_a_row_share_one_label() -> None:
    marks = [Mark(T0 + at_s, "fallback", "stop") for at_s in (0.0, 0.5, 1.0, 9.0)]
    marks.insert(1, Mark(T0 + 0.2, "clear", "good again"))
    marks.insert(3, Mark(T0 + 0.7, "discard", "late"))
    found = [(label.text, round(label.time_s - T0, 1)) for label in labels(marks)]
    assert found == [("stop  ×3", 0.0), ("late", 0.7), ("stop", 9.0)]


@given(st.lists(st.tuples(st.floats(0, 300), st.floats(1, 200)), max_size=25))
def test_no_label_covers_another(found: list[tuple[float, float]]) -> None:
    places = sorted((left, left + width) for left, width in found)
    chosen = levels(places)
    for (one, at), (other, other_at) in itertools.combinations(zip(places, chosen, strict=True), 2):
        assert at != other_at or one[1] <= other[0] or other[1] <= one[0]


def test_no_line_from_a_label_to_its_event_crosses_an_earlier_label() -> None:
    """Lines go down from the left end of a label; one that reaches over a later one stands above it."""
    places = [(0.0, 50.0), (10.0, 30.0), (40.0, 90.0), (100.0, 120.0)]
    assert levels(places) == [0, 1, 1, 0]
    assert max(levels([(i, 100.0) for i in range(MAX_LEVELS)])) == MAX_LEVELS - 1
