"""A claim of the paper holds only where the executed figures bear it out."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.paper import claim_rows as claims
from benchmarks.paper import executed as execution
from rosa_sim.fleet.systems import fleet_of, without_limits

PUBLISHED, TODAY = "rosa_published", "rosa"


def row(raw_hz: float, qualified_hz: float) -> dict[str, Any]:
    meet = {"system1": qualified_hz / raw_hz if raw_hz else 0.0}
    return {
        "raw_hz": raw_hz,
        "qualified_hz": qualified_hz,
        "meet": meet,
        "p50_ms": {"system1": 600.0},
        "limit_hz": 99,
    }


def table(**rates_hz: float) -> dict[str, dict[str, Any]]:
    """Claims by their words; `rates_hz`: system -> qualified actions/s everywhere, 10 where nothing is said."""
    points = {point: row(100.0, rates_hz.get(point[1], 10.0)) for point in execution.points()}
    late = dict.fromkeys(claims.WAITED, row(100.0, 0.0))
    servers = [{"equal_partition, times ROSA's": 5.4, "weighted_partition, times ROSA's": 4.0}]
    return {found["claim"]: found for found in claims.claims_of(points, late, servers)}


@pytest.mark.slow
def test_a_gain_holds_when_it_is_reached_and_not_when_it_is_missed() -> None:
    mix2 = "Mix2: best rate over the best shared system"
    reached = table(rosa_published=25.0, rosa=30.0)[mix2]
    assert (reached["as published"], reached["today"], reached["holds"]) == ("2.50x", "3.00x", "yes")
    missed = table(rosa_published=15.0, rosa=30.0)[mix2]
    assert (missed["as published"], missed["holds"]) == ("1.50x", "**no**"), "today's ROSA proves nothing"


def test_a_collapse_leaves_nothing_and_says_what_patient_robots_get() -> None:
    words = "P4, 32 robots: equal_partition has no qualified actions, actions/s"
    lasting = table()[words]
    assert lasting["holds"] == "**no**"
    assert "wait for late answers: 0 of 100.0 actions/s" in lasting["remark"]
    assert table(equal_partition=0.0, weighted_partition=1.0)[words]["holds"] == "yes"


def test_servers_needed_are_compared_both_ways() -> None:
    found = table()
    assert found["GPUs of a rate-controlled equal_partition over ROSA's, up to"]["holds"] == "yes"
    assert found["GPUs of a rate-controlled weighted_partition over ROSA's, up to"]["holds"] == "**no**"


def test_the_aims_name_the_point_at_which_rosa_is_behind() -> None:
    points = {point: row(10.0, 10.0) for point in execution.points()}
    points["p2", TODAY, 16] = row(10.0, 5.0)
    paper, published, baselines = claims.aims_of([{"holds": "yes"}, {"holds": "**no**"}], points)
    assert (paper["value"], paper["holds"]) == ("1 of 2", False)
    for aim in (published, baselines):
        assert not aim["holds"]
        assert "23 of 24; least 0.50x at P2 with 16 robots" in aim["value"]


def test_uncapped_robots_have_no_rates_and_static_partitions_their_servers() -> None:
    factory = without_limits(fleet_of(execution.Window().of("p4").factory, 16))
    uncapped = execution.system_for(f"{PUBLISHED}, uncapped", factory, 16, 0.0)
    assert execution.system_for(PUBLISHED, factory, 16, 0.0).serving.placement.rates_hz
    assert not uncapped.serving.placement.rates_hz
    static = execution.system_for("static 2:2:2:2", factory, 16, 0.0)
    assert set(static.schedule.servers_by_component().values()) == {2}
    assert static.serving.placement.rates_hz
    assert execution.system_for("static 1:3:1:3", factory, 64, 0.0) is None, "Table 3: infeasible at 64"


def test_robots_that_wait_for_late_answers_count_those_within_the_real_slo() -> None:
    found = execution.waited(execution.Window(1, 2.0, 3.0), "p4", "weighted_partition", 16)
    assert found["raw_hz"] > 15
    assert found["meet"]["system1"] < 0.02, "all queue for one server longer than the SLO"
