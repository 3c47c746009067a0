"""How old is what the robot sees: from the header, on a clock that may jump."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rosa_client.sensing.sample_age import SampleTimes


def test_a_picture_that_was_long_under_way_is_old_when_it_arrives() -> None:
    times = SampleTimes()
    times.arrived("front", 100.0, 0.8)
    assert times.taken_s() == {"front": 99.2}


def test_a_header_that_says_nothing_or_lies_in_the_future_counts_as_arrival() -> None:
    times = SampleTimes()
    times.arrived("front", 100.0, None)
    times.arrived("wrist", 100.0, -3600.0)
    assert times.taken_s() == {"front": 100.0, "wrist": 100.0}


def test_a_clock_that_jumps_ahead_spoils_no_more_than_the_pictures_under_way() -> None:
    times = SampleTimes()
    times.arrived("front", 100.00, 0.01)
    times.arrived("front", 100.05, 3600.01)  # taken before the jump, arrives after it
    assert times.taken_s()["front"] == pytest.approx(99.99)
    times.arrived("front", 100.10, 0.01)
    assert times.taken_s()["front"] == pytest.approx(100.09)


def test_a_repeated_old_sample_does_not_look_new() -> None:
    times = SampleTimes()
    for late in range(10):
        times.arrived("joint_state", 100.0 + late / 10, late / 10)
    assert times.taken_s()["joint_state"] == pytest.approx(100.0)


def test_a_sample_that_is_older_than_the_newest_is_told() -> None:
    times = SampleTimes()
    assert times.arrived("front", 100.0, 0.0)
    assert not times.arrived("front", 100.1, 30.0)
    assert times.arrived("front", 100.2, 0.1)


@given(st.lists(st.tuples(st.floats(0, 1), st.none() | st.floats(-1e6, 1e6)), min_size=1))
def test_the_time_never_goes_back_and_is_never_later_than_the_arrival(
    samples: list[tuple[float, float | None]],
) -> None:
    times, now_s, before_s = SampleTimes(), 100.0, float("-inf")
    for later_s, age_s in samples:
        now_s += later_s
        times.arrived("front", now_s, age_s)
        taken_s = times.taken_s()["front"]
        assert before_s <= taken_s <= now_s
        before_s = taken_s
