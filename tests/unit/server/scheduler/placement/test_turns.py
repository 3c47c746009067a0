"""Which models may share a GPU, with which batches, and how long their calls then take."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest

from rosa_contract.config.tasks import GOAL_COUPLED
from rosa_server.scheduler.placement.packing import ServerKind
from rosa_server.scheduler.placement.turns import Tenant, latencies_s, on_one_gpu, with_batches
from rosa_server.scheduler.profiles.catalog import Catalog, Load
from rosa_server.scheduler.profiles.options import Options
from rosa_server.timing.batches import BatchProfile
from tests.unit.server.scheduler.factories import LIBRARY, factory

P4 = factory("paper/p4", robots=4, servers=2)
CATALOG = Catalog(P4, LIBRARY, Options())
RATES_HZ = {"system1": 2.5, "system2": 0.25, "safety": 2.0, "monitor": 0.5}


def tenant(component: str, robots: int = 4, slo_ms: float | None = None) -> Tenant:
    need = next(need for need in P4.classes[0].needs if need.component == component)
    load = Load("assemble_kit", component, robots, RATES_HZ[component], slo_ms or need.slo_ms)
    return Tenant(ServerKind(need.model, (component,)), (load,), CATALOG.times(need.model, component))


def test_any_two_batches_in_a_row_keep_both_slos() -> None:
    found = with_batches([tenant("system1"), tenant("safety"), tenant("monitor")])
    assert found is not None
    assert any(each.batch > 1 for each in found)
    for one, other in permutations(found, 2):
        assert one.runs_s + other.runs_s < one.slo_s


def test_a_batch_that_would_make_another_model_late_keeps_it_from_the_gpu() -> None:
    """System 2 runs for 233 ms, System 1 for 47 ms within an SLO of 200 ms."""
    assert with_batches([tenant("system1"), tenant("system2")]) is None
    assert with_batches([tenant("system1", slo_ms=400), tenant("system2")]) is not None


def told(*tenants: Tenant) -> list[Tenant]:
    """As where SLOs need not hold for any arrivals: robots are told when to call for System 1 and 2."""
    return [replace(each, told=each.kind.components[0] in GOAL_COUPLED) for each in tenants]


def test_a_call_that_a_robot_is_told_to_make_waits_for_no_other_model() -> None:
    tenants = told(tenant("system1"), tenant("system2"), tenant("safety"))
    found = with_batches(tenants)
    assert found is not None
    one, two, verdict = found
    assert one.slo_s < two.runs_s, "System 2 runs for longer than System 1 may take"
    assert max(one.runs_s, two.runs_s) + verdict.runs_s < verdict.slo_s, "verdicts come whenever they are due"
    assert with_batches(told(tenant("system2"), tenant("safety", slo_ms=250))) is None


def test_the_deadline_of_such_a_call_runs_from_then_and_its_robot_waits_from_before() -> None:
    tenants = with_batches(told(tenant("system1"), tenant("system2"), tenant("safety"))) or []
    one, _, verdict = latencies_s(tenants)
    assert max(one.calls_s) < tenants[0].slo_s < max(one.robots_s)
    assert verdict.calls_s == verdict.robots_s
    assert sum(late_s > tenants[2].slo_s for late_s in verdict.calls_s) < 0.01 * len(verdict.calls_s)


def test_no_batch_is_larger_than_its_streams_need() -> None:
    (found, _) = with_batches([tenant("system2", robots=2), tenant("monitor")]) or []
    assert found.batch == 2


def test_the_batch_of_system_1_can_be_bounded() -> None:
    found = with_batches([tenant("system1"), tenant("monitor")], largest=1) or []
    assert [each.batch for each in found] == [1, 4]


def test_a_model_that_is_hardly_called_takes_its_own_time() -> None:
    load = Load("t", "safety", 1, 0.1, 500.0)
    alone = Tenant(ServerKind("m", ("safety",)), (load,), BatchProfile({1: 20.0}))
    (taken,) = latencies_s([alone])
    assert sum(taken.robots_s) / len(taken.robots_s) == pytest.approx(0.02, rel=0.02)
    assert taken.robots_s == taken.calls_s


def test_more_load_takes_longer_and_the_same_every_time() -> None:
    means_s = []
    for robots in (2, 8):
        tenants = with_batches([tenant("system1", robots), tenant("monitor", robots)]) or []
        taken = latencies_s(tenants)
        assert taken == latencies_s(tenants)
        means_s.append(sum(taken[0].robots_s) / len(taken[0].robots_s))
    assert means_s[0] < means_s[1]


def test_servers_on_one_gpu_are_expected_to_keep_their_slos() -> None:
    placed = on_one_gpu(CATALOG, [tenant("system1"), tenant("safety"), tenant("monitor")])
    assert placed is not None
    for server in placed:
        (component,) = server.kind.components
        assert server.state.mean_ms[component] < server.state.p99_ms[component] <= server.tightest_ms


def test_a_gpu_that_is_too_busy_is_refused() -> None:
    assert on_one_gpu(CATALOG, [tenant("system1", 12), tenant("safety", 12), tenant("monitor", 12)]) is None


def test_models_that_do_not_fit_its_memory_do_not_share_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    tenants = [tenant("safety"), tenant("monitor")]  # 12 and 24 GB
    assert on_one_gpu(CATALOG, tenants) is not None
    monkeypatch.setattr(Catalog, "hardware_memory_mb", property(lambda _: 35_000.0))
    assert on_one_gpu(CATALOG, tenants) is None
