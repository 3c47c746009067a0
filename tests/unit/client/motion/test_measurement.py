"""Which measurements count: each way to be wrong has a cause, and the arm comes back when they are right."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rosa_client.motion.measurement import (
    CONFIRM_S,
    CONFIRM_SAMPLES,
    SILENT_S,
    UNCONFIRMED,
    MeasurementCheck,
    Sample,
)
from rosa_contract.config.robot import load_robot
from tests.unit.client.refusals import because

SPEC = load_robot(Path(__file__).parents[4] / "configs" / "robots" / "panda.yaml")
HOME = np.array(SPEC.home_rad)
DT_S = 0.01
CLOCK_S = 1_000.0  # by how much the source's clock is ahead of ours


class Bench:
    """A source that measures every 10 ms with stamps of its own clock."""

    def __init__(self) -> None:
        self.check = MeasurementCheck(SPEC.joints, SPEC.limits)
        self.now_s = 0.0

    def sample(self, q_rad: np.ndarray = HOME, stamp_s: float | None = None) -> str:
        """One more sample, by default a good one; the cause of its refusal, empty when it counts."""
        self.now_s += DT_S
        stamp = self.now_s + CLOCK_S if stamp_s is None else stamp_s
        refusal = self.check.take(Sample(np.asarray(q_rad, dtype=np.float64), self.now_s, stamp))
        return "" if refusal is None else refusal.cause

    def good(self, seconds: float, q_rad: np.ndarray = HOME) -> None:
        for _ in range(round(seconds / DT_S)):
            self.sample(q_rad)

    @property
    def cause(self) -> str:
        return "" if self.check.fault is None else self.check.fault.cause


@pytest.fixture
def bench() -> Bench:
    made = Bench()
    made.good(1.0)
    assert made.cause == ""
    return made


def off(joint: int, by_rad: float) -> np.ndarray:
    q_rad = HOME.copy()
    q_rad[joint] += by_rad
    return q_rad


def test_the_first_samples_have_to_agree_before_one_counts_for_certain() -> None:
    made = Bench()
    made.sample()
    assert made.check.fault is UNCONFIRMED
    made.good(CONFIRM_S - 2 * DT_S)
    assert made.cause == "measurement_unconfirmed"
    made.good(3 * DT_S)
    assert made.cause == ""


def test_slow_samples_have_to_be_several() -> None:
    made = MeasurementCheck(SPEC.joints, SPEC.limits)
    for number in range(CONFIRM_SAMPLES):
        assert made.fault is not None
        made.take(Sample(HOME, 0.3 * number))
    assert made.fault is None


@pytest.mark.parametrize(
    ("cause", "q_rad"),
    [
        ("measurement_not_finite", off(2, math.nan)),
        ("measurement_not_finite", off(2, math.inf)),
        ("measurement_range", off(3, 1e6)),
        ("measurement_range", np.zeros(7)),  # joint 4 of a Panda cannot be stretched
        ("measurement_jump", off(0, 0.5)),
        ("measurement_jump", off(6, -0.2)),
        ("measurement_shape", np.zeros(6)),
        ("measurement_shape", np.zeros((7, 1))),
    ],
)
def test_a_position_that_cannot_be_right_does_not_count_and_is_a_fault_for_a_while(
    bench: Bench, cause: str, q_rad: np.ndarray
) -> None:
    assert bench.sample(q_rad) == cause
    assert bench.cause == cause
    assert bench.check.trusted == pytest.approx(HOME)
    assert bench.sample() == "", "the next good one counts, but is not certain"
    assert bench.cause == cause
    bench.good(CONFIRM_S + 2 * DT_S)
    assert bench.cause == ""


def test_the_joint_and_both_values_are_named(bench: Bench) -> None:
    bench.sample(off(1, 0.4))
    said = because("measurement_jump", bench.check.fault)
    assert said == "panda_joint2 is measured at 0.195 rad, 10 ms after -0.205 rad: no joint is that fast"


def test_an_arm_may_move_as_fast_as_its_joints_can(bench: Bench) -> None:
    q_rad = HOME.copy()
    for _ in range(50):
        q_rad = q_rad + np.array(SPEC.limits.velocity_rad_s) * DT_S * 0.9 * np.array([1, 1, 1, 1, 1, -1, 1])
        assert bench.sample(q_rad) == ""
    assert bench.cause == ""


def test_a_second_publisher_is_a_fault_for_as_long_as_it_publishes_and_never_counts(bench: Bench) -> None:
    wrong = off(0, 0.7)
    for number in range(300):
        if number % 10 == 0:
            assert bench.sample(wrong) == "measurement_jump"
        else:
            assert bench.sample() == ""
        assert bench.cause == "measurement_jump"
        assert bench.check.trusted == pytest.approx(HOME)
    bench.good(CONFIRM_S + 2 * DT_S)
    assert bench.cause == ""


def test_an_arm_that_was_put_elsewhere_counts_once_it_could_have_moved_there(bench: Bench) -> None:
    """As after a person moved it by hand while nothing measured; 1 rad at one and a half times 2.175 rad/s."""
    heard = [bench.sample(off(0, 1.0)) for _ in range(100)]
    first = heard.index("")
    assert 0.25 < first * DT_S < 0.33
    assert set(heard[first:]) == {""}
    assert bench.cause == ""
    assert bench.check.trusted == pytest.approx(off(0, 1.0))


STAMPS: dict[str, Callable[[Bench], float]] = {
    "stamp_back": lambda bench: bench.now_s + CLOCK_S - 5.0,
    "stamp_ahead": lambda bench: bench.now_s + CLOCK_S + 5.0,
    "measurement_not_finite": lambda bench: math.nan,
}


@pytest.mark.parametrize("cause", STAMPS)
def test_a_stamp_that_cannot_be_right_is_a_fault_for_a_while(bench: Bench, cause: str) -> None:
    assert bench.sample(HOME, STAMPS[cause](bench)) == cause
    assert bench.cause == cause
    bench.good(2 * CONFIRM_S)
    assert bench.cause == ""


@pytest.mark.parametrize("by_s", [-3600.0, 3600.0])
def test_a_clock_that_was_set_counts_again_once_it_is_regular(bench: Bench, by_s: float) -> None:
    for _ in range(round((CONFIRM_S + 3 * DT_S) / DT_S)):
        bench.sample(HOME, bench.now_s + DT_S + CLOCK_S + by_s)
    assert bench.cause == ""


def test_stamps_that_stand_still_are_no_new_measurements_however_they_move(bench: Bench) -> None:
    stood_s = bench.now_s + CLOCK_S
    for number in range(round((SILENT_S + 0.05) / DT_S)):
        assert bench.sample(off(0, 0.001 * number), stood_s) == "stamp_frozen"
    assert bench.cause == "stamp_frozen"
    assert bench.check.trusted == pytest.approx(HOME)
    assert bench.check.age_s(bench.now_s) > SILENT_S


def test_a_sample_that_was_overtaken_is_not_new_and_no_fault(bench: Bench) -> None:
    for _ in range(10):
        bench.sample(off(0, 0.01))
        assert bench.sample(HOME, bench.now_s + CLOCK_S - 0.005) == "stamp_back"
        assert bench.check.trusted == pytest.approx(off(0, 0.01))
    assert bench.cause == ""


def test_one_stamp_twice_is_no_fault(bench: Bench) -> None:
    bench.sample(HOME, bench.now_s + CLOCK_S)
    bench.good(0.1)
    assert bench.cause == ""


def test_a_silence_is_a_fault_and_the_first_sample_after_it_is_not_certain(bench: Bench) -> None:
    bench.now_s += SILENT_S + 0.1
    bench.check.watch(bench.now_s)
    assert bench.cause == "measurement_silent"
    bench.sample(off(0, 0.5))
    assert bench.cause == "measurement_silent"
    bench.good(2 * CONFIRM_S, off(0, 0.5))
    assert bench.cause == ""


def test_samples_that_were_held_up_together_count(bench: Bench) -> None:
    """Half a second of network trouble, then fifty samples at once, of an arm in motion."""
    stamps = bench.now_s + CLOCK_S + DT_S * np.arange(1, 51)
    bench.now_s += 0.5
    for number, stamp_s in enumerate(stamps):
        sample = Sample(off(0, 0.02 * (number + 1)), bench.now_s, stamp_s)
        assert bench.check.take(sample) is None
    assert bench.cause == ""


@pytest.mark.parametrize("drift", [-500e-6, 500e-6])
def test_a_clock_that_is_slower_or_faster_makes_no_sample_old(bench: Bench, drift: float) -> None:
    """By as much as NTP moves a clock, for ten minutes."""
    for number in range(1, 6_000):
        bench.now_s += 0.1
        stamp_s = CLOCK_S + 1.0 + number * 0.1 * (1 + drift)
        assert bench.check.take(Sample(HOME, bench.now_s, stamp_s)) is None
        assert bench.check.age_s(bench.now_s) < 0.15


def test_samples_that_come_later_and_later_are_old(bench: Bench) -> None:
    for number in range(100):
        bench.now_s += 0.1
        bench.check.take(Sample(HOME, bench.now_s, bench.now_s + CLOCK_S - number * 0.004))
    assert 0.25 < bench.check.age_s(bench.now_s) < 0.4


def test_a_liar_with_stamps_ahead_gains_no_time_to_move(bench: Bench) -> None:
    assert bench.sample(off(0, 0.5), bench.now_s + CLOCK_S + 0.2) == "measurement_jump"


def test_an_arm_that_others_may_have_moved_is_confirmed_again(bench: Bench) -> None:
    bench.check.question()
    assert bench.cause == "measurement_unconfirmed"
    bench.good(CONFIRM_S)
    bench.check.question()
    bench.good(CONFIRM_S - DT_S)
    assert bench.cause == "measurement_unconfirmed", "from the last time on"
    bench.good(3 * DT_S)
    assert bench.cause == ""


def test_the_first_fault_is_the_one_that_is_told(bench: Bench) -> None:
    bench.sample(off(0, 0.5))
    bench.sample(off(2, math.nan))
    bench.sample(HOME, bench.now_s + CLOCK_S - 5.0)
    assert bench.cause == "measurement_jump"


def test_a_simulated_arm_may_be_put_elsewhere_but_not_anywhere(bench: Bench) -> None:
    bench.check.adopt(off(0, 1.0), bench.now_s)
    assert bench.cause == ""
    with pytest.raises(ValueError, match="panda_joint4 is measured"):
        bench.check.adopt(np.zeros(7), bench.now_s)
