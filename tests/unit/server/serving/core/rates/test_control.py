"""The control law of one queue (docs/rates.md): batches that are in time, and no state that lasts."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rosa_server.serving.core.dispatch.lane import RequestQueue
from rosa_server.serving.core.queueing.ledger import Call
from rosa_server.serving.core.rates.control import MAX_PACE, RateControl
from rosa_server.serving.core.rates.permits import MEMORY_S, Permits
from rosa_server.serving.core.workers.worker_state import Batch, WorkerState
from rosa_server.timing.batches import BatchProfile, largest, together

PADDED = {1: 28.0, 2: 48.0, 4: 76.0, 8: 108.0, 16: 139.0}
SLO_S = 0.1


def control(times: dict[int, float] | None = None, planned: int = 16) -> RateControl:
    found = RateControl(BatchProfile(times or PADDED, padded=True))
    found.fit(True, planned, 0.0, 1)
    return found


def answered(line: Permits, now_s: float, *answers_s: float) -> None:
    """Permits that were given one after the other, and how long their calls took."""
    for answer_s in answers_s:
        line.ask(now_s, (b"a", "system1"), 0.0)
        line.give(now_s, inf, lambda _: 1)
        line.called(now_s + answer_s, (b"a", "system1"))


def test_batches_leave_room_for_a_slow_network() -> None:
    sizes = {size: 0.1 + 0.01 * size for size in range(1, 9)}
    assert [largest(8, sizes.__getitem__, wait_s, 0.2) for wait_s in (0.0, 0.013, 0.04)] == [7, 7, 4]
    assert largest(4, sizes.__getitem__, 0.0, 0.2) == 4


def test_where_no_batch_is_in_time_a_smaller_one_helps_nobody() -> None:
    assert largest(8, lambda size: 0.25 + 0.001 * size, 0.2, 0.2) == 8


def test_a_wait_that_no_batch_allows_makes_none_that_takes_longer_than_the_slo_by_itself() -> None:
    """Batches were as large as planned then, so that all of their calls were late, and not those few that waited."""
    assert largest(8, lambda size: 0.02 + 0.01 * size, 0.09, 0.061) == 3


def test_a_batch_that_is_no_slower_is_never_given_up_for_a_smaller_one() -> None:
    """A batch of 1 took as long as one of 4. Calls were late, batches shrank, more calls were late: for good."""
    rates = control({1: 76.0, 2: 76.0, 4: 76.0}, 4)
    answered(rates.line, 0.0, *[0.03] * 50)
    rates.window(0.1)
    rates.fit(True, 4, 0.0, 1)
    assert rates.size(SLO_S) == 4


def test_the_tighter_its_slo_the_smaller_the_batch_that_a_call_may_be_in() -> None:
    rates = control()
    assert [rates.size(slo_s) for slo_s in (0.04, 0.06, 0.1, 0.13, 0.2)] == [1, 2, 4, 8, 16]


def test_batches_are_never_so_small_that_the_planned_rates_do_not_fit() -> None:
    rates = control()
    rates.fit(True, 16, planned_hz=50.0, servers=1)
    assert rates.size(0.04) == 4, "one of 2 runs 42 calls per second, one of 4 53"


def test_batches_follow_how_long_robots_take_and_forget_it() -> None:
    rates = control()
    answered(rates.line, 0.0, *[0.05] * 50)
    rates.window(0.1)
    rates.fit(True, 16, 0.0, 1)
    assert rates.size(SLO_S) == 1
    rates.window(MEMORY_S + 1.0)
    rates.fit(True, 16, 0.0, 1)
    assert rates.size(SLO_S) == 4


def test_batches_follow_how_much_their_times_vary() -> None:
    rates = control()
    for number in range(100):
        rates.ran(0.01 * number, 0.076, 0.076 * (1.25 if number % 10 == 0 else 1.0))
    rates.window(1.0)
    rates.fit(True, 16, 0.0, 1)
    assert rates.size(SLO_S) == 2


def asked(rates: RateControl, room: float, late: int = 0) -> float:
    """A window in which this share of 100 robots found an idle server; what the others are told then."""
    for number in range(100):
        rates.asked(0.0, number < 100 * room)
        rates.ended(number < late)
    rates.window(1.0)
    return rates.pace


def test_nobody_need_ask_while_nearly_everybody_finds_an_idle_server() -> None:
    rates = control()
    told = [asked(rates, room) for room in (0.5, 0.9, 0.96, 0.9, 0.8, 0.9)]
    assert told == [1.0, 1.0, MAX_PACE, MAX_PACE, 1.0, 1.0]
    assert asked(control(), 1.0, late=5) == 1.0, "and nobody is late"


def test_who_heard_of_the_pace_before_is_held_to_that_for_one_window_more() -> None:
    rates = control()
    asked(rates, 1.0)
    asked(rates, 0.0)
    assert (rates.pace, rates.tolerated) == (1.0, MAX_PACE)
    asked(rates, 0.0)
    assert rates.tolerated == 1.0


def test_calls_of_one_batch_have_slos_that_allow_it() -> None:
    profile = BatchProfile(PADDED, padded=True)
    assert together([8, 4, 8, 8, 8, 8, 8, 8, 8], profile) == [0, 2, 3, 4, 5, 6, 7, 8]
    assert together([4, 8, 8, 8, 8, 8], profile) == [0, 1, 2, 3], "the first one chooses"
    assert together([8, 4, 4, 4], profile) == [0, 1, 2, 3], "rather four together than one alone"


@given(st.lists(st.sampled_from([1, 2, 4, 8, 16]), min_size=1, max_size=40))
def test_the_first_call_is_always_in_the_batch(sizes: list[int]) -> None:
    chosen = together(sizes, BatchProfile(PADDED, padded=True))
    assert chosen[0] == 0 and chosen == sorted(set(chosen))
    assert len(chosen) <= min(sizes[index] for index in chosen)


def robots(line: Permits, slo_s: float, count: int, name: str) -> None:
    for number in range(count):
        line.ask(0.0, (f"{name}{number}".encode(), "system1"), 1.0, slo_s)


def permitted(line: Permits, batches: float, begun: int = 1) -> str:
    size = control().size
    return "".join(chr(key[0][0]) for key in line.give(0.0, batches, size, begun))


def test_robots_whose_slos_allow_the_same_batch_are_asked_for_it_together() -> None:
    line = Permits()
    robots(line, 0.13, 5, "l")
    robots(line, 0.1, 5, "t")
    robots(line, 0.13, 5, "l")
    assert permitted(line, 2) == "lllll" + "tttt", "5 of 8, as there are no more; then 4"


def test_what_is_left_of_a_batch_is_filled_with_those_who_may_be_in_it() -> None:
    line = Permits()
    robots(line, 0.1, 3, "t")
    robots(line, 0.13, 8, "l")
    assert permitted(line, 0.5, begun=8) == "llll"
    assert permitted(line, 1.0) == "ttt" + "l"


def test_as_many_are_asked_as_one_batch_runs() -> None:
    """Five were asked for one of 8, which takes so much longer than one of 4 that 4 of them ran: the fifth waited for a
    whole batch, and was late."""
    line, profile = Permits(), BatchProfile(PADDED, padded=True)
    robots(line, 0.13, 5, "l")
    size, runs = control().size, profile.best_count
    assert len(line.give(0.0, 1.0, size, runs=runs)) == 4
    assert line.give(0.0, 0.5, size, begun=8, runs=runs) == [], "4 are in it"
    robots(line, 0.13, 6, "n")
    assert len(line.give(0.0, 0.5, size, begun=8, runs=runs)) == 4, "now it is one of 8"
    assert len(line.give(0.0, 1.0, size, runs=runs)) == 2, "three would be padded to four"


def coming(number: int, arrived_s: float, slo_s: float) -> Call:
    name = f"r{number}"
    due_s = arrived_s + slo_s
    return Call(number, name.encode(), name, "system1", "m", 1, arrived_s, due_s, (), arrived_s, slo_s=slo_s)


def test_a_batch_that_is_full_takes_no_more_because_some_of_its_calls_may_be_in_a_larger_one() -> None:
    """Two that have waited may be in one of 4, two new ones in one of 8: that counted as three quarters of a batch."""
    rates, queue = control(), RequestQueue(64)
    worker = WorkerState("w", "m", "g", "q", 16)
    running = [coming(number, 0.0, 0.13) for number in range(4)]
    worker.batches[1] = Batch(1, running, "q", 4, 0.076, 0.105, 1.0, 0)
    for number, arrived_s in ((10, 0.06), (11, 0.06), (12, 0.1), (13, 0.1)):
        queue.put(coming(number, arrived_s, 0.13))
    robots(rates.line, 0.13, 2, "l")
    assert rates.grant(0.1, queue.waiting(), [worker])[0] == []
    queue.remove(("r13", "system1"))
    assert len(rates.grant(0.1, queue.waiting(), [worker])[0]) == 1


@pytest.mark.parametrize("turn", [1e9, inf])
def test_nobody_waits_for_ever_whatever_its_turn_was(turn: float) -> None:
    line = Permits()
    line._next_turn[b"a", "system1"] = turn
    line.ask(0.0, (b"a", "system1"), 1.0)
    for number in range(5):
        line.ask(0.0, (b"b%d" % number, "system1"), 1.0)
    assert (b"a", "system1") in line.give(0.0, 6.0, lambda _: 1)
