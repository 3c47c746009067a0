"""A refusal can be acted on: the servers and rates that it names are enough, its causes are listed, its words plain."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from rosa_server.scheduler.placement.schedule import Refusal
from rosa_server.scheduler.placement.servers import fastest_rate_hz
from rosa_server.scheduler.problem import Need, Problem, TaskClass
from rosa_server.scheduler.profiles.catalog import Catalog
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_server.scheduler.profiles.options import Options
from rosa_server.scheduler.profiles.profile import DYNAMIC
from rosa_server.scheduler.search.min_servers import servers_needed
from rosa_server.scheduler.search.relaxation import upper_bound
from rosa_server.scheduler.search.solve import solve
from tests.unit.server.scheduler.factories import GR00T, LIBRARY, SMALL, factory, pool, task

FULL = pool(8, task("kit", 64, "12sm", min_rate_hz=2.0))
WAITING = pool(8, task("kit", 16, "12sm", min_rate_hz=3.6))
SEVERAL = pool(8, task("kit", 16, "12sm", min_rate_hz=3.5), task("pick", 16, "1m", min_rate_hz=3.0))
NO_MINIMUM = pool(4, task("kit", 64, "12sm"))
REFUSED = pytest.mark.parametrize("problem", [FULL, WAITING, SEVERAL, NO_MINIMUM])


def refused(problem: Problem, options: Options | None = None) -> tuple[Refusal, ...]:
    schedule = solve(problem, LIBRARY, options)
    assert not schedule.feasible
    return schedule.reasons


def causes(problem: Problem, options: Options | None = None) -> list[str]:
    return [refusal.cause for refusal in refused(problem, options)]


@REFUSED
def test_the_servers_that_would_be_enough_are(problem: Problem) -> None:
    first = refused(problem)[0]
    assert first.cause == "too_few_servers"
    found = re.match(rf"(\d+) servers would be enough, the cluster has {problem.servers}", first.reason)
    assert found, first
    assert solve(problem.with_servers(int(found[1])), LIBRARY).feasible


@pytest.mark.slow
@pytest.mark.parametrize("problem", [FULL, WAITING, SEVERAL])
def test_the_rates_that_are_offered_instead_hold(problem: Problem) -> None:
    offer = refused(problem)[1]
    assert offer.cause == "lower_rates_fit"
    rates = {name: float(hz) for name, hz in re.findall(r"(\w+) ([\d.]+) Hz", offer.reason)}
    lower = replace(
        problem,
        classes=tuple(replace(c, min_rate_hz=rates[c.name]) for c in problem.classes),
    )
    assert solve(lower, LIBRARY).feasible
    higher = tuple(replace(c, min_rate_hz=1.03 * rates[c.name]) for c in problem.classes)
    assert not solve(replace(problem, classes=higher), LIBRARY).feasible, "there is no more to be had"


@pytest.mark.slow
@REFUSED
def test_the_robots_that_are_offered_instead_are_served(problem: Problem) -> None:
    offer = refused(problem)[-1]
    assert offer.cause == "fewer_robots_fit"
    robots = {name: int(count) for count, name in re.findall(r"(\d+) (kit|pick)", offer.reason.split(":")[1])}
    assert 0 < sum(robots.values()) < problem.robots
    assert solve(problem.with_robots(robots), LIBRARY).feasible
    assert not solve(problem.scaled_to(sum(robots.values()) + 1), LIBRARY).feasible, (
        "there is no more to be had"
    )


def with_slos(problem: Problem, slos_ms: dict[tuple[str, float], float]) -> Problem:
    """With these SLOs by component and what it was."""
    classes = tuple(
        replace(
            cls,
            needs=tuple(
                replace(need, slo_ms=slos_ms.get((need.component, need.slo_ms), need.slo_ms))
                for need in cls.needs
            ),
        )
        for cls in problem.classes
    )
    return replace(problem, classes=classes)


def longer_slos_of(problem: Problem) -> dict[tuple[str, float], float]:
    """What a refusal offers: component and SLO -> the longer one."""
    (offer,) = [refusal.reason for refusal in refused(problem) if refusal.cause == "longer_slos_fit"]
    found = re.findall(r"(\w+) ([\d.]+) instead of ([\d.]+) ms", offer)
    return {(component, float(now)): float(longer) for component, longer, now in found}


@pytest.mark.slow
@pytest.mark.parametrize("slo_ms", [30.0, 60.0, 100.0], ids=["late even alone", "short", "nearly enough"])
def test_the_longer_slos_that_are_offered_are_enough(slo_ms: float) -> None:
    kit = task("kit", 48, "1sm")
    tight = (replace(need, slo_ms=slo_ms) if need.component == "safety" else need for need in kit.needs)
    problem = pool(4, replace(kit, needs=tuple(tight)), task("pick", 8, "1m"))
    offered = longer_slos_of(problem)
    assert list(offered) == [("safety", slo_ms)], "nothing else has to change"
    assert solve(with_slos(problem, offered), LIBRARY).feasible
    shorter = {key: 0.95 * longer_ms for key, longer_ms in offered.items()}
    assert not solve(with_slos(problem, shorter), LIBRARY).feasible, "there is no less to be had"


def test_longer_slos_are_named_by_task_where_tasks_have_different_ones() -> None:
    def tight(cls: TaskClass, slo_ms: float) -> TaskClass:
        needs = (replace(need, slo_ms=slo_ms) if need.component == "safety" else need for need in cls.needs)
        return replace(cls, needs=tuple(needs))

    problem = pool(4, tight(task("kit", 24, "1s"), 30.0), tight(task("pick", 24, "1s"), 40.0))
    (offer,) = [one.reason for one in refused(problem) if one.cause == "longer_slos_fit"]
    found = re.findall(r"(\w+)\.safety (\d+) instead of (\d+) ms", offer)
    factors = {name: float(longer) / float(now) for name, longer, now in found}
    assert factors.keys() == {"kit", "pick"}
    assert factors["kit"] == pytest.approx(factors["pick"], rel=0.05)
    assert f"{factors['kit']:.1f} times as long" in offer


def test_where_slos_do_not_bind_no_longer_ones_are_offered() -> None:
    assert "longer_slos_fit" not in causes(WAITING)


@REFUSED
def test_the_words_are_of_a_factory(problem: Problem) -> None:
    text = "; ".join(refusal.reason for refusal in refused(problem))
    assert "equation" not in text
    assert " 0 req/s" not in text


@pytest.mark.slow
def test_full_servers_are_told_from_long_queues() -> None:
    full = ["too_few_servers", "lower_rates_fit", *["servers_full"] * 4]
    assert causes(FULL) == [*full, "longer_slos_fit", "fewer_robots_fit"]
    assert causes(WAITING) == ["too_few_servers", "lower_rates_fit", "rounds_too_long", "fewer_robots_fit"]
    assert Refusal(
        "servers_full",
        "system1 needs 6 servers at 64 robots: 128 req/s at p99 200 ms, one NVIDIA H200 serves 22.4",
    ) in refused(FULL)
    (queue,) = [refusal.reason for refusal in refused(WAITING) if refusal.cause == "rounds_too_long"]
    assert queue.startswith(
        "6 servers would carry the requests, but robots would wait too long, those of kit first"
    )
    assert (
        "3.6 Hz is a round of 278 ms, 200 ms of it action, which leaves 78 ms for system1 + 0.1 x system2"
        in queue
    )
    assert Refusal("servers_full", "system1 needs 1 server, however slowly its robots act") in refused(
        NO_MINIMUM
    )


def test_a_rate_that_needs_an_idle_server_for_every_call_is_refused_for_any_number() -> None:
    first, second, *_ = refused(pool(8, task("kit", 4, "1m", min_rate_hz=4.0)))
    assert first.cause == "no_servers_suffice"
    assert second.cause == "lower_rates_fit"
    assert second.reason.startswith("with these servers min_action_rate_hz can be kit 3.")


def test_servers_that_are_too_few_at_any_rate_offer_no_rate() -> None:
    demanding = task("kit", 64, "12sm", min_rate_hz=0.5)
    assert "no_rates_fit" in causes(pool(4, demanding))


def test_standby_servers_are_counted_apart() -> None:
    first = refused(pool(8, task("kit", 16, "12sm")), Options(standby=5))[0]
    assert first.cause == "too_few_servers"
    assert first.reason == "9 servers would be enough (4 to serve, 5 standby), the cluster has 8"


def test_what_no_server_cures_says_what_to_change() -> None:
    slo, longer = refused(pool(8, task("kit", 4, "1", slo_ms=60.0)))
    assert (slo.cause, longer.cause) == ("slo_unreachable", "longer_slos_fit")
    lowest = re.search(r"allow more than (\d+) ms", slo.reason)
    assert lowest, slo
    assert solve(pool(8, task("kit", 4, "1", slo_ms=float(lowest[1]) + 1)), LIBRARY).feasible
    assert "rate_unreachable" in causes(pool(8, task("kit", 4, "1", min_rate_hz=4.5)))
    busy = TaskClass("kit", 1, 0.2, (Need("safety", SMALL, 500.0, freq_hz=200.0),))
    assert causes(pool(8, busy)) == ["robot_exceeds_server"]


@pytest.mark.parametrize(
    ("name", "share", "highest"),
    [("factory", 0.9, 16), ("factory", 0.95, 29), ("paper/mix4", 0.9, 19), ("paper/mix4", 0.95, 34)],
)
def test_as_few_servers_are_enough_as_any_packing_of_ours_finds(
    name: str, share: float, highest: int
) -> None:
    problem = factory(name, 64)
    needed = servers_needed(problem, LIBRARY, share_of_fastest=share)
    assert needed is not None
    assert needed.lowest <= needed.servers <= highest
    eager = _eager(name, 64, share)
    assert solve(eager.with_servers(needed.servers), LIBRARY).feasible
    below = upper_bound(eager.with_servers(needed.lowest - 1), LIBRARY, Options())
    assert below is None, "no schedule of fewer servers exists"


def test_a_factory_that_fits_is_not_refused_above_the_size_of_the_papers_search() -> None:
    mix2 = factory("paper/mix2", 32, servers=18)
    rates = {"pick_and_place_simple": 3.81, "assemble_kit": 3.45}
    eager = replace(mix2, classes=tuple(replace(c, min_rate_hz=rates[c.name]) for c in mix2.classes))
    assert solve(eager, LIBRARY).feasible


@pytest.mark.slow
def test_what_is_not_proved_is_said() -> None:
    first = refused(_eager("factory", 64, 0.95).with_servers(20))[0].reason
    words = r"\d+ servers would be enough, the cluster has 20; fewer than \d+ are not"
    assert re.fullmatch(words, first), first
    first = refused(_eager("factory", 64, 0.95).with_servers(26))[0].reason
    assert "; no schedule was found for fewer, although 26 are not ruled out" in first


def _eager(name: str, robots: int, share: float) -> Problem:
    problem = factory(name, robots)
    catalog = Catalog(problem, LIBRARY, Options())
    classes = (replace(c, min_rate_hz=share * fastest_rate_hz(catalog, c)) for c in problem.classes)
    return replace(problem, classes=tuple(classes))


def test_components_that_may_share_a_server_but_cannot_need_as_many_as_apart() -> None:
    # The checker's SLO allows small batches only, the monitor's rate large ones only.
    profile = LIBRARY.get(GR00T, "NVIDIA H200")
    anyone = tuple(replace(c, components=()) for c in profile.configurations)
    library = ProfileLibrary(profiles=[profile, replace(profile, model="both", configurations=anyone)])
    needs = (
        Need("system1", GR00T, 200.0, calls_per_action=1.0),
        Need("safety", "both", 200.0, freq_hz=1.0),
        Need("monitor", "both", 600.0, freq_hz=50.0),
    )
    problem, sharing = pool(3, TaskClass("kit", 1, 0.2, needs)), Options(share_components=True)
    assert solve(problem, library, sharing).feasible
    assert servers_needed(problem, library, sharing) == servers_needed(problem, library)
    first = solve(problem.with_servers(2), library, sharing).reasons[0]
    assert first.cause == "too_few_servers"
    assert first.reason.startswith("3 servers would be enough"), first


def test_a_profile_of_which_nothing_may_be_used_says_so() -> None:
    """It was an OverflowError: the latency of nothing is infinite."""
    profile = LIBRARY.get(GR00T, "NVIDIA H200")
    dynamic = tuple(one for one in profile.configurations if one.batching == DYNAMIC)
    assert dynamic
    library = ProfileLibrary(profiles=[replace(profile, configurations=dynamic)])
    problem = pool(8, TaskClass("kit", 4, 0.2, (Need("system1", GR00T, 200.0, 1.0),)))
    (only,) = solve(problem, library).reasons
    assert only.cause == "no_batching" and "--dynamic-batching" in only.reason
    assert solve(problem, library, Options(dynamic_batching=True)).feasible
