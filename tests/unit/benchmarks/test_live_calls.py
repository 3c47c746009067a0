"""A fleet live against its simulation: what counts as the same call, and what as a difference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from benchmarks.fleet.live_calls import RunCalls, aims_of, apart, compared
from rosa_contract.config.tasks import SYSTEM1
from rosa_sim.fleet.record import CallRecord

FROM_S, TO_S, ACTION_S = 1.0, 11.0, 0.4
ROBOTS = ("a", "b")


@dataclass(frozen=True)
class Played:
    """Two robots that call once a second, together; each field is one way to differ."""

    takes_s: float = 0.2
    last_ending: str = "in_time"
    apart_from: int = 99  # the round from which each call has a batch of its own

    def calls(self) -> RunCalls:
        record = CallRecord({})
        for number in range(12):
            for robot in ROBOTS:
                record.sends.append((float(number), robot, SYSTEM1, number))
                ending = self.last_ending if number == 10 else "in_time"
                record.ends.append((number + self.takes_s, robot, SYSTEM1, number, ending))
            together = [(robot, number) for robot in ROBOTS]
            batches = [together] if number < self.apart_from else [[one] for one in together]
            record.batches += [(number + 0.01, "m0", tuple(batch)) for batch in batches]
        return RunCalls(record, dict.fromkeys(ROBOTS, ACTION_S), FROM_S, TO_S)


def row(live: Played) -> dict[str, Any]:
    found = compared(Played().calls(), live.calls())
    return {"scenario": "p4", "robots": 2, "start": "random", **found}


def missed(live: Played) -> list[str]:
    return [aim["aim"].split()[0] for aim in aims_of([row(live)]) if not aim["holds"]]


def test_only_calls_that_end_after_the_warm_up_count() -> None:
    calls = Played().calls()
    assert calls.actions_hz == 2.0  # two robots, once a second
    assert len(calls.latency_ms[SYSTEM1]) == 20
    assert calls.latency_ms[SYSTEM1] == pytest.approx([200.0] * 20)
    assert calls.wait_ms == pytest.approx([400.0] * 18)  # 1 s less 0.2 s for the answer and 0.4 s of action


def test_a_run_like_its_simulation_misses_nothing() -> None:
    same = row(Played())
    assert (same["same_ending"], same["pairs"], same["same_batches"]) == (1.0, 20, 12)
    assert same["same_until_s"] == float("inf")
    assert missed(Played()) == []


@pytest.mark.parametrize(
    ("live", "which"),
    [
        (Played(takes_s=0.22), ["p50"]),
        (Played(last_ending="late"), ["as", "the"]),  # fewer actions, and other endings
        (Played(apart_from=9), ["calls"]),
    ],
)
def test_each_difference_misses_its_own_aim(live: Played, which: list[str]) -> None:
    assert missed(live) == which


def test_batches_are_alike_until_the_first_that_is_not() -> None:
    found = row(Played(apart_from=5))
    assert (found["same_batches"], found["same_until_s"]) == (5, 5.01)
    # Of the rounds 1 to 10 six have two batches of one call instead of one of two.
    assert found["batches_apart"] == {SYSTEM1: 0.6}


def test_a_cancelled_call_has_an_ending_and_no_latency() -> None:
    calls = Played(last_ending="cancelled").calls()
    assert calls.endings["a", SYSTEM1].count("cancelled") == 1
    assert len(calls.latency_ms[SYSTEM1]) == 18


def test_how_far_apart_two_distributions_are() -> None:
    assert apart([1, 2, 3], [3, 2, 1]) == 0.0
    assert apart([1, 2], [3, 4]) == 1.0
    assert apart([1, 2, 3, 4], [1, 2, 3, 9]) == 0.25
