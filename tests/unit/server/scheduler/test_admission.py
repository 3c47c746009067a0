"""Robots come and go: whatever was admitted stays feasible under the same profiles (ROSA 3.4.4)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rosa_server.scheduler.admission import admit, remove
from rosa_server.scheduler.deployment import audit
from tests.unit.server.scheduler.factories import factory, pool, running, task


def test_a_robot_joins_without_moving_weights() -> None:
    before = running(factory("paper/p4", robots=16))
    answer = admit(before, "assemble_kit")
    assert answer.admitted, answer.reason
    assert [(s.id, s.model) for s in answer.deployment.schedule.servers] == [
        (s.id, s.model) for s in before.schedule.servers
    ]
    assert audit(answer.deployment) == []
    routes = answer.deployment.schedule.routing[answer.robot]
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


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_any_sequence_of_arrivals_and_departures_stays_feasible(data: st.DataObject) -> None:
    deployment = running(
        pool(
            8,
            task("simple", data.draw(st.integers(1, 12)), "1m"),
            task("kit", data.draw(st.integers(1, 12)), "12sm"),
            task("slow", data.draw(st.integers(1, 6)), "1s", action_s=0.5, slo_ms=500.0, min_rate_hz=0.3),
        )
    )
    assert audit(deployment) == []
    for _ in range(data.draw(st.integers(1, 12))):
        robots = sorted(deployment.schedule.routing)
        if robots and data.draw(st.booleans()):
            deployment = remove(deployment, data.draw(st.sampled_from(robots)))
        else:
            deployment = admit(deployment, data.draw(st.sampled_from(["simple", "kit", "slow"]))).deployment
        assert audit(deployment) == []
