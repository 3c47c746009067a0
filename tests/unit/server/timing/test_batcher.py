"""How many run together, and when a free worker waits."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rosa_server.timing.batches import RETURN_MARGIN_S, Batcher, BatchProfile, Run, Wait, without_tightest

GPU = {1: 40.0, 2: 44.0, 4: 52.0, 8: 68.0}  # ms: batching pays


def steady(batcher: Batcher, gap_s: float, until_s: float = 10.0) -> None:
    for step in range(30, -1, -1):
        batcher.arrived(until_s - step * gap_s)


def test_before_anything_is_known_a_free_worker_runs_what_is_there() -> None:
    assert Batcher(8).decide(0.0, [1.0], True) == Run(1)


def test_a_batch_never_grows_beyond_what_its_tightest_request_allows() -> None:
    batcher = Batcher(8, BatchProfile(GPU))
    deadlines_s = [0.050] + [1.0] * 7  # 44 ms fit, 52 ms do not
    assert batcher.decide(0.0, deadlines_s, False) == Run(3)


def test_a_request_that_is_late_even_alone_holds_nobody_back() -> None:
    batcher = Batcher(8, BatchProfile(GPU))
    assert batcher.decide(0.0, [0.010, 1.0, 1.0], False) == Run(3)


def test_it_waits_for_the_next_of_many_robots_when_that_shortens_the_total() -> None:
    batcher = Batcher(8, BatchProfile(GPU))
    steady(batcher, 0.005)
    decision = batcher.decide(10.0, [10.3], True)
    assert isinstance(decision, Wait)
    assert decision.until_s <= 10.0 + 0.0101


def test_it_does_not_wait_when_arrivals_are_rare_or_no_robot_is_left_to_send() -> None:
    batcher = Batcher(8, BatchProfile(GPU))
    steady(batcher, 0.2)
    assert batcher.decide(10.0, [10.3], True) == Run(1)
    steady(batcher, 0.005, until_s=20.0)
    assert batcher.decide(20.0, [20.3], False) == Run(1)


def test_it_does_not_wait_when_the_next_one_does_not_come() -> None:
    batcher = Batcher(8, BatchProfile(GPU))
    steady(batcher, 0.005)
    assert batcher.decide(10.1, [10.3], True) == Run(1)


def test_a_static_batch_takes_what_waits_and_asks_for_no_deadline() -> None:
    aware, static = (Batcher(4, BatchProfile({1: 40.0, 2: 45.0, 4: 55.0})) for _ in range(2))
    static.deadline_aware = False
    for batcher in (aware, static):
        steady(batcher, 0.005)
    assert isinstance(aware.decide(10.0, [10.5], True), Wait), "another is about to come, and there is time"
    assert static.decide(10.0, [10.5], True) == Run(1)
    tight = [10.043, 10.5, 10.5, 10.5, 10.5]
    assert aware.decide(10.0, tight, False) == Run(1), "more would make the first one late"
    assert static.decide(10.0, tight, False) == Run(4)


VLA = {1: 47.0, 2: 55.0, 4: 91.0, 8: 150.0, 16: 188.0}


def test_the_tightest_request_runs_first_while_nobody_loses_by_that() -> None:
    batcher = Batcher(16, BatchProfile(VLA))
    assert batcher.decide(10.0, [10.050] + [10.200] * 8, False) == Run(1)


def test_when_somebody_is_late_in_any_case_the_batch_that_answers_most_is_run() -> None:
    batcher = Batcher(16, BatchProfile(VLA))
    assert batcher.decide(10.0, [10.050] + [10.095] * 8, False) == Run(4, first=1)


def test_a_worker_that_never_ran_one_alone_gives_a_tight_request_the_chance() -> None:
    batcher = Batcher(16, BatchProfile({16: 188.0}))
    assert batcher.in_time_alone(10.0, 10.100)
    assert batcher.decide(10.0, [10.100] + [10.500] * 20, False) == Run(1)


def test_choosing_among_a_thousand_waiting_requests_asks_no_more_than_among_a_few() -> None:
    deadlines_s = [10.050 + number * 0.0001 for number in range(1000)]
    few, many = Counted(VLA), Counted(VLA)
    for profile, waiting in ((few, 48), (many, 1000)):
        decision = Batcher(16, profile).decide(10.0, deadlines_s[:waiting], False)
        assert isinstance(decision, Run)
        assert decision.first <= 32
    assert few.asked == many.asked <= 2 * 16 * 17 + 100


class Counted(BatchProfile):
    """Counts how often it is asked for a service time: the work of a decision."""

    asked = 0

    def service_s(self, batch_size: int) -> float:
        self.asked += 1
        return super().service_s(batch_size)


def test_a_model_that_gains_nothing_from_batches_is_never_kept_waiting() -> None:
    batcher = Batcher(8, BatchProfile({1: 40.0, 2: 80.0, 4: 160.0}))
    steady(batcher, 0.005)
    assert batcher.decide(10.0, [10.5], True) == Run(1)


def test_what_is_left_out_is_the_tightest_wherever_it_stands_in_the_order() -> None:
    batcher = Batcher(4, BatchProfile(GPU))
    assert batcher.decide(10.0, [10.095] * 3 + [10.050] + [10.095] * 5, False) == Run(4, first=1)
    assert without_tightest([3.0, 1.0, 2.0, 1.0], 2) == [0, 2]
    assert without_tightest([3.0, 1.0], 0) == [0, 1]


@given(
    slack_ms=st.lists(st.floats(1, 500), min_size=1, max_size=10),
    gap_ms=st.floats(0.1, 100),
    times=st.lists(st.floats(1, 100), min_size=4, max_size=4),
)
def test_it_never_waits_past_the_slack_of_the_tightest_request(
    slack_ms: list[float], gap_ms: float, times: list[float]
) -> None:
    profile = BatchProfile(dict(zip((1, 2, 4, 8), sorted(times), strict=True)))
    batcher = Batcher(8, profile)
    steady(batcher, gap_ms / 1000)
    deadlines_s = [10.0 + ms / 1000 for ms in slack_ms]
    decision = batcher.decide(10.0, deadlines_s, True)
    if isinstance(decision, Wait):
        latest_s = min(deadlines_s) - profile.service_s(len(deadlines_s) + 1) - RETURN_MARGIN_S
        assert 10.0 < decision.until_s <= latest_s
    else:
        assert 1 <= decision.count <= min(8, len(deadlines_s) - decision.first)
        kept = without_tightest(deadlines_s, decision.first)
        chosen = [deadlines_s[index] for index in kept[: decision.count]]
        end_s = 10.0 + RETURN_MARGIN_S + profile.service_s(decision.count)
        for deadline_s in chosen:
            assert end_s <= deadline_s or not batcher.in_time_alone(10.0, deadline_s), (
                "made late by the others"
            )
