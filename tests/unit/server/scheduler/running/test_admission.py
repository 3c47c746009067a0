"""Robots come and go: whatever was admitted stays feasible under the same profiles (ROSA 3.4.4)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rosa_server.scheduler.problem import StreamClass
from rosa_server.scheduler.profiles.catalog import Catalog
from rosa_server.scheduler.profiles.options import Options
from rosa_server.scheduler.running.admission import MIN_SHARE, POOR_EFFICIENCY, admit
from rosa_server.scheduler.running.deployment import Deployment, audit, deploy
from rosa_server.scheduler.running.removal import remove
from tests.examples import examples
from tests.unit.server.scheduler.factories import LIBRARY, factory, pool, running, task


def test_a_robot_joins_without_moving_weights() -> None:
    before = running(factory("paper/p4", robots=16))
    answer = admit(before, "assemble_kit")
    assert answer.admitted, answer.reason
    assert [(s.id, s.model) for s in answer.deployment.schedule.servers] == [
        (s.id, s.model) for s in before.schedule.servers
    ]
    assert audit(answer.deployment) == []
    routes = answer.deployment.schedule.routing[answer.slot]
    assert set(routes) == {"system1", "system2", "safety", "monitor"}


def test_admission_changes_only_the_new_robots_routes() -> None:
    before = running(factory("paper/mix4", robots=16))
    after = admit(before, "pick_and_place_hard").deployment.schedule.routing
    assert {robot: after[robot] for robot in before.schedule.routing} == before.schedule.routing


def test_a_full_factory_lowers_rates_before_it_refuses() -> None:
    full = now = running(factory("paper/p2", robots=64))
    for _ in range(10):
        answer = admit(now, "pick_and_place_simple")
        assert answer.admitted, answer.reason
        now = answer.deployment
        assert audit(now) == []
    assert now.rates_hz["pick_and_place_simple"] < full.rates_hz["pick_and_place_simple"]


def test_a_robot_on_full_servers_takes_no_more_of_the_rates_than_its_stream_needs() -> None:
    now = running(factory("paper/p2", robots=64))
    while not (answer := admit(now, "pick_and_place_simple")).reason.count("no server with system1 has room"):
        now = answer.deployment
    assert answer.admitted, answer.reason
    after = answer.deployment
    (name,) = [name for name, rate_hz in now.rates_hz.items() if after.rates_hz[name] < rate_hz]
    faster = replace(after, rates_hz={**after.rates_hz, name: 1.002 * after.rates_hz[name]})
    assert audit(after) == []
    assert any("breaks an SLO" in words for words in audit(faster)), "it was lowered by too much"


def test_where_all_servers_are_full_a_robot_joins_where_the_least_is_lost() -> None:
    kits = task("dear", 6, "1", weight=10.0), task("cheap", 7, "1")
    options = Options.paper()  # each class on a server of its own
    schedule = running(pool(2, *kits), options).schedule
    problem = pool(2, *kits, task("new", 0, "1"))
    now = deploy(problem, Catalog(problem, LIBRARY, options), schedule)
    assert 6 * now.rates_hz["dear"] < 7 * now.rates_hz["cheap"], (
        "the server with more room is not the best choice"
    )
    answer = admit(now, "new")
    assert answer.admitted, answer.reason
    assert "no server with system1 has room" in answer.reason
    joined = answer.deployment.schedule.routing[answer.slot]["system1"]
    assert set(now.schedule.server(joined).streams) == {StreamClass("cheap", "system1")}
    assert answer.deployment.rates_hz["dear"] == now.rates_hz["dear"]


def test_neighbours_slow_down_where_longer_rounds_would_break_a_minimum_rate() -> None:
    kit = task("kit", 4, "1", slo_ms=400.0, min_rate_hz=3.3)
    full = now = running(pool(2, kit, task("slow", 2, "1", action_s=0.5, slo_ms=400.0)))
    while "kit: its longer rounds" not in (answer := admit(now, "slow")).reason:
        assert answer.admitted, answer.reason
        now = answer.deployment
    assert answer.admitted, answer.reason
    assert audit(answer.deployment) == []
    assert answer.deployment.rates_hz["kit"] >= 3.3
    assert answer.deployment.rates_hz["slow"] < now.rates_hz["slow"] < full.rates_hz["slow"]
    while answer.admitted:
        answer = admit(answer.deployment, "kit")
    assert "kit: its longer rounds" in answer.reason, "with no neighbour left to slow down that is a refusal"


def test_a_robot_joins_a_full_server_of_several_components_at_lower_rates() -> None:
    now = running(pool(4, task("kit", 20, "12m")), Options(share_components=True))
    assert any(set(server.components) == {"system2", "monitor"} for server in now.schedule.servers)
    lowered = []
    while (answer := admit(now, "kit")).admitted:
        assert audit(answer.deployment) == []
        if "no server with monitor has room" in answer.reason:
            lowered.append(answer.deployment.rates_hz["kit"] / now.rates_hz["kit"])
        now = answer.deployment
    assert len(lowered) > 3, "slower rounds ask less of System 2, which makes room for the monitor"
    assert max(lowered) < 1


def test_rates_never_fall_below_the_minimum() -> None:
    full = running(pool(4, task("kit", 20, "1m", min_rate_hz=2.0)))
    while (answer := admit(full, "kit")).admitted:
        full = answer.deployment
        assert audit(full) == []
    assert full.rates_hz["kit"] >= 2.0
    assert "global rescheduling" in answer.reason
    assert answer.deployment is full


def test_a_safety_server_without_room_refuses_with_its_numbers() -> None:
    full = running(factory("paper/p4", robots=32))
    while (answer := admit(full, "assemble_kit")).admitted:
        full = answer.deployment
    assert "safety" in answer.reason
    assert "p99 500 ms" in answer.reason
    assert answer.reschedule


def test_unknown_names_are_refused() -> None:
    deployment = running(factory("paper/p1", robots=4))
    with pytest.raises(KeyError, match="pick_and_place_action_only"):
        admit(deployment, "fold_clothes")
    with pytest.raises(KeyError, match="nobody"):
        remove(deployment, "nobody/7")


LITTLE_LESS = 0.95  # a search that raises class by class may end at another point than the plan's


def grown(deployment: Deployment, name: str, limit: int = 1000) -> tuple[Deployment, list[str]]:
    """Robots of a task admitted one by one until one is refused, and their names."""
    robots: list[str] = []
    while len(robots) < limit and (answer := admit(deployment, name)).admitted:
        robots.append(answer.slot)
        deployment = answer.deployment
    return deployment, robots


def test_however_many_come_rates_keep_their_least_share_of_the_plan() -> None:
    planned = running(pool(4, task("kit", 8, "1m"), task("slow", 4, "1", action_s=0.8)))
    full, robots = grown(planned, "kit")
    assert len(robots) > 20, "many small steps down, each measured from the one before it"
    for name, rate_hz in planned.rates_hz.items():
        assert full.rates_hz[name] >= MIN_SHARE * rate_hz * (1 - 1e-9)


def test_many_small_losses_ask_for_rescheduling_as_one_large_loss_does() -> None:
    now = planned = running(pool(2, task("kit", 8, "1", weight=10.0), task("slow", 8, "1", action_s=0.8)))
    steps = []
    for _ in range(60):
        answer = admit(now, "slow")
        if not answer.admitted:
            break
        steps.append(answer.deployment.schedule.objective / now.schedule.objective)
        now = answer.deployment
        if answer.reschedule:
            break
    assert now.schedule.objective < (1 - POOR_EFFICIENCY) * planned.schedule.objective
    assert answer.reschedule
    assert min(steps) > 1 - POOR_EFFICIENCY, "no step alone would have asked for it"


@pytest.mark.parametrize("options", [Options(), Options(share_components=True), Options.paper()])
def test_rates_are_as_planned_again_when_the_last_robot_too_many_has_left(options: Options) -> None:
    planned = running(factory("paper/mix4", robots=32), options)
    full, robots = planned, []
    for name in [cls.name for cls in planned.problem.classes] * 3:
        full, more = grown(full, name, limit=1)
        robots += more
    assert any(full.rates_hz[name] < rate_hz for name, rate_hz in planned.rates_hz.items())
    now = full
    for (
        robot
    ) in robots:  # the first to come is the first to leave: not what the last admission could take back
        before, now = now, remove(now, robot)
        assert audit(now) == []
        assert all(now.rates_hz[name] >= rate_hz for name, rate_hz in before.rates_hz.items())
    assert now.rates_hz == pytest.approx(planned.rates_hz)


def test_a_robot_that_comes_makes_nobody_faster_so_that_its_leaving_makes_nobody_slower() -> None:
    now = running(pool(2, task("kit", 8, "1"), task("slow", 4, "1", action_s=0.5, slo_ms=300.0)))
    for name in ("kit", "slow", "kit"):
        now = admit(now, name).deployment
    answer = admit(now, "kit")
    assert answer.admitted, answer.reason
    assert all(rate_hz <= now.rates_hz[name] for name, rate_hz in answer.deployment.rates_hz.items())
    assert remove(answer.deployment, answer.slot).rates_hz == now.rates_hz


def test_a_robot_that_leaves_a_full_factory_makes_the_others_faster() -> None:
    full, robots = grown(running(factory("paper/p2", robots=64)), "pick_and_place_simple", limit=12)
    now = full
    for robot in robots[:6]:
        now = remove(now, robot)
    assert now.rates_hz["pick_and_place_simple"] > full.rates_hz["pick_and_place_simple"]


def test_robots_that_come_and_go_for_a_long_time_do_not_wear_the_rates_down() -> None:
    planned = running(pool(8, task("kit", 12, "12sm"), task("slow", 6, "1s", action_s=0.5, slo_ms=500.0)))
    now, staying = grown(planned, "kit", limit=4)
    first = now.schedule.objective
    for _ in range(40):  # always four too many, and never the same ones for long
        answer = admit(now, "kit")
        assert answer.admitted, answer.reason
        now = remove(answer.deployment, staying.pop(0))
        staying.append(answer.slot)
        assert audit(now) == []
    assert now.schedule.objective >= LITTLE_LESS * first
    for robot in staying:
        now = remove(now, robot)
    assert now.rates_hz == pytest.approx(planned.rates_hz)


def factories(data: st.DataObject) -> Deployment:
    return running(
        pool(
            8,
            task("simple", data.draw(st.integers(1, 12)), "1m"),
            task("kit", data.draw(st.integers(1, 12)), "12sm"),
            task("slow", data.draw(st.integers(1, 6)), "1s", action_s=0.5, slo_ms=500.0, min_rate_hz=0.3),
        )
    )


@pytest.mark.slow
@pytest.mark.prove
@settings(max_examples=examples(10, 25))
@given(st.data())
def test_who_is_admitted_and_leaves_at_once_costs_nothing(data: st.DataObject) -> None:
    deployment = factories(data)
    for name in data.draw(st.lists(st.sampled_from(["simple", "kit", "slow"]), max_size=8)):
        deployment = admit(deployment, name).deployment
    answer = admit(deployment, data.draw(st.sampled_from(["simple", "kit", "slow"])))
    if answer.admitted:
        again = remove(answer.deployment, answer.slot)
        assert again.rates_hz == deployment.rates_hz
        assert again.schedule.routing == deployment.schedule.routing
        # Without the short cut the rates may rise higher than before, as admission lowers them in steps.
        searched = remove(replace(answer.deployment, undo=None), answer.slot)
        assert searched.schedule.objective >= LITTLE_LESS * deployment.schedule.objective
        assert audit(searched) == []


@pytest.mark.slow
@pytest.mark.prove
@settings(max_examples=examples(10, 25))
@given(st.data())
def test_any_sequence_of_arrivals_and_departures_stays_feasible(data: st.DataObject) -> None:
    deployment = factories(data)
    assert audit(deployment) == []
    for _ in range(data.draw(st.integers(1, 12))):
        robots = sorted(deployment.schedule.routing)
        if robots and data.draw(st.booleans()):
            before = deployment.rates_hz
            deployment = remove(deployment, data.draw(st.sampled_from(robots)))
            assert all(rate_hz >= before[name] for name, rate_hz in deployment.rates_hz.items())
        else:
            deployment = admit(deployment, data.draw(st.sampled_from(["simple", "kit", "slow"]))).deployment
        assert audit(deployment) == []
