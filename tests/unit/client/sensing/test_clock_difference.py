"""Samples that arrive, but are all stamped in the past or the future, tell how far two clocks are apart."""

from __future__ import annotations

import pytest

from rosa_client.sensing.clock_difference import SAMPLES, ClockWatch, clock_difference

LIMIT_S = 0.5


def seen(age_s: float, grows: float = 0.0, count: int = SAMPLES) -> list[tuple[float, float]]:
    """(arrival, age) at 10 Hz; `grows`: s per s."""
    return [(10 + 0.1 * i, age_s + grows * 0.1 * i) for i in range(count)]


def words(samples: list[tuple[float, float]]) -> str:
    fault = clock_difference(samples, LIMIT_S)
    return fault.words if fault is not None else ""


def test_a_clock_that_is_behind_is_told_with_its_size() -> None:
    assert words(seen(3.2)).startswith("stamped 3.20 s behind this machine's clock")


def test_a_clock_that_is_ahead_is_told_with_its_size() -> None:
    fault = clock_difference(seen(-2.5), LIMIT_S)
    assert fault is not None and fault.ahead
    assert fault.words.startswith("stamped 2.50 s ahead of this machine's clock")


@pytest.mark.parametrize("age_s", [0.0, 0.03, 0.45, -0.02])
def test_samples_within_the_limit_are_no_difference(age_s: float) -> None:
    assert words(seen(age_s)) == ""


def test_one_late_sample_is_no_difference() -> None:
    late = seen(0.03)
    late[2] = (late[2][0], 4.0)
    assert words(late) == ""
    assert words(seen(3.2, count=SAMPLES - 1)) == "", "a few say nothing yet"


def test_stamps_that_stand_still_are_told_apart_from_a_clock() -> None:
    assert words(seen(0.6, grows=1.0)) == "its stamps stand still while it arrives"


def test_stamps_of_another_kind_of_clock_are_named() -> None:
    """Such as the time since the camera was switched on."""
    assert "stamped 1.7e+09 s behind this machine's clock" in words(seen(1.7e9))


def test_a_watch_keeps_the_latest_samples_of_each_sensor_apart() -> None:
    watch = ClockWatch(LIMIT_S)
    for at_s, age_s in seen(3.2):
        watch.heard("front", at_s, age_s)
        watch.heard("wrist", at_s, 0.02)
    assert watch.fault("front") is not None and watch.fault("wrist") is None
    watch.heard("front", 11.0, 0.02)
    assert watch.fault("front") is None, "the clocks agree again"
    for at_s, age_s in seen(3.2):
        watch.heard("front", at_s + 2, age_s)
    watch.heard("front", 20.0, None)
    assert watch.fault("front") is None, "a header without a stamp says nothing"
