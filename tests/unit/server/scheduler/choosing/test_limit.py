"""No schedule and no policy exceeds the limit, whether calls come together or one by one; few robots fill no batch."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from rosa_server.scheduler.choosing.limit import limit_hz, ways
from rosa_server.scheduler.problem import Need
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_server.scheduler.running.batch_sizes import service_table
from rosa_server.timing.continuous import Shared
from tests.unit.server.scheduler.factories import BIG, GR00T, LIBRARY, pool, task

H200 = "NVIDIA H200"
PROMPT_MS = 20.0
PRICES = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0)


def with_prompts() -> ProfileLibrary:
    """Where the prompt of a plan takes `PROMPT_MS`."""
    profile = LIBRARY.get(BIG, H200)
    known = tuple(replace(one, prefill_ms=PROMPT_MS) for one in profile.configurations)
    return ProfileLibrary(profiles=[replace(profile, configurations=known)])


def staggered(count: int, library: ProfileLibrary) -> tuple[float, float]:
    """Mean wait and server time of calls, each of which comes when the prompt of the one before it is done; s."""
    table = service_table(library, H200, BIG, ("system2",))
    shared: Shared[int] = Shared(table.service_s, PROMPT_MS / 1000)
    for number in range(count):
        shared.begin(number * PROMPT_MS / 1000, number)
    waited_s = ends_s = 0.0
    while len(shared):
        ends_s = shared.next_s
        _, begun_s = shared.end(ends_s)
        waited_s += ends_s - begun_s
    return waited_s / count, ends_s / count


@pytest.mark.parametrize("count", [2, 4, 8, 16])
def test_calls_that_come_one_by_one_stay_within_the_ways_that_count(count: int) -> None:
    """A call among k that came one after the other waits for fewer prompts than k."""
    library = with_prompts()
    problem = pool(4, task("kit", 64, "12"))
    plans = problem.classes[0].goals[1]
    wait_s, busy_s = staggered(count, library)
    assert wait_s < service_table(library, H200, BIG, ("system2",)).service_s(count)
    known = ways(problem, library, plans)
    for price in PRICES:
        assert wait_s + price * busy_s >= min(each_s + price * each for each_s, each in known) - 1e-9


def test_a_mixture_of_many_and_few_calls_is_one_of_the_ways() -> None:
    """An SLO that 16 at a time miss still leaves a call beside 16 for a part of its time."""
    table = service_table(LIBRARY, H200, BIG, ("system2",))
    slo_s = (table.service_s(8) + table.service_s(16)) / 2
    found = ways(pool(4, task("kit", 64, "12")), LIBRARY, Need("system2", BIG, 1000 * slo_s, 0.1))
    wait_s, busy_s = found[-1]
    assert wait_s == pytest.approx(slo_s)
    assert table.service_s(16) / 16 < busy_s < table.service_s(8) / 8


def test_whole_batches_are_in_time_as_a_whole() -> None:
    table = service_table(LIBRARY, H200, GR00T, ("system1",))
    slo_s = (table.service_s(4) + table.service_s(8)) / 2
    found = ways(pool(4, task("kit", 64)), LIBRARY, Need("system1", GR00T, 1000 * slo_s, 1.0))
    assert found[-1] == (table.service_s(4), table.service_s(4) / 4)


def test_robots_have_one_call_open_each_and_fill_no_larger_batch() -> None:
    """Two robots that hardly act share one server: never a batch of more than two."""
    library = ProfileLibrary(every_size=True)
    runs_s = [service_table(library, H200, GR00T, ("system1",)).service_s(k) for k in (1, 2)]
    action_s = 1e-3
    most_hz = max(
        min(2 / (action_s + each_s), count / each_s) for count, each_s in zip((1, 2), runs_s, strict=True)
    )
    problem = pool(1, replace(task("kit", 2, "1", action_s=action_s)))
    assert limit_hz(problem, library) == pytest.approx(most_hz, rel=0.02)
    many = partial(limit_hz, library=library)
    assert many(pool(1, task("kit", 16, "1", action_s=action_s))) > 1.5 * most_hz


def test_who_plans_in_large_batches_waits_for_them() -> None:
    """The least wait and the least server time of System 2 are not had at once."""
    problem = pool(2, task("kit", 64, "12", slo_ms=1000.0))
    (plans,) = (need for need in problem.classes[0].goals if need.component == "system2")
    frequent = replace(plans, calls_per_action=1.0)
    cls = replace(problem.classes[0], needs=(problem.classes[0].needs[0], frequent))
    found = ways(problem, LIBRARY, frequent)
    (least_wait_s, _), (_, least_busy_s) = found[0], found[-1]
    acts = ways(problem, LIBRARY, cls.needs[0])
    both_at_once = max(
        min(64 / (cls.action_s + wait_s + least_wait_s), 2 / (busy_s + least_busy_s))
        for wait_s, busy_s in acts
    )
    assert limit_hz(replace(problem, classes=(cls,)), LIBRARY) < 0.999 * both_at_once
