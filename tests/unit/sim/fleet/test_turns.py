"""Models that take turns on a GPU: what is predicted is executed, and everybody is in time."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from rosa_contract.config.policies import PLANNED, Policies
from rosa_server.scheduler.choosing.choice import choose
from rosa_server.scheduler.problem import problem_from
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_server.scheduler.profiles.options import Options
from rosa_server.serving.core.queueing.actions import Dispatch, Reply
from rosa_sim.fleet.execute import execute
from rosa_sim.fleet.scenario import load_scenario
from rosa_sim.fleet.systems import ROSA, System, executable, fleet_of, without_limits

LIBRARY = ProfileLibrary()
FACTORIES = (("lab", 4, 1), ("p2", 8, 1), ("p4", 4, 1), ("p4", 16, 3), ("mix4", 8, 2))


@cache
def planned(scenario: str, robots: int, gpus: int, **policies: Any) -> tuple[Any, Any, System]:
    loaded = load_scenario(scenario).changed(seconds=30.0, warm_up_s=5.0)
    factory = without_limits(fleet_of(loaded.factory, robots, gpus))
    factory = replace(factory, policies=Policies(**policies))
    found = choose(problem_from(factory), LIBRARY, Options(share_gpus=True), factory.policies)
    assert found.schedule.shares_gpus
    return loaded.scenario, factory, executable(ROSA, factory, found.schedule, LIBRARY, 0.03)


@pytest.mark.slow
@pytest.mark.parametrize(("scenario", "robots", "gpus"), FACTORIES)
def test_what_is_predicted_is_executed_with_everybody_in_time(scenario: str, robots: int, gpus: int) -> None:
    how, factory, system = planned(scenario, robots, gpus)
    outcome = execute(how, factory, system, "together", 0)
    assert outcome.executed_hz == pytest.approx(system.predicted_hz, rel=0.03)
    assert min(outcome.meet.values()) >= 0.99


@pytest.mark.slow
@pytest.mark.parametrize("start", ["random", "together"])
def test_the_schedules_own_rates_hold_as_well(start: str) -> None:
    how, factory, system = planned("p4", 8, 3, rates=PLANNED)
    outcome = execute(how, factory, system, start, 0)
    assert outcome.qualified_hz == pytest.approx(system.schedule.action_throughput_hz, rel=0.02)
    assert min(outcome.meet.values()) >= 0.99


@pytest.mark.slow
def test_no_gpu_has_two_batches_at_a_time() -> None:
    how, factory, system = planned("lab", 4, 1)
    assert system.serving is not None
    servers = {name: replica.server for name, replica in system.serving.placement.replicas.items()}
    open_calls: dict[str, set[int]] = {server: set() for server in servers.values()}
    batches = 0

    def watch(now_s: float, action: Any) -> None:
        nonlocal batches
        if isinstance(action, Dispatch):
            held = open_calls[servers[action.worker_id.rpartition("/")[0]]]
            assert not held, f"at {now_s}"
            held.update(call.ticket for call in action.calls)
            batches += 1
        elif isinstance(action, Reply):
            for held in open_calls.values():
                held.discard(action.call.ticket)

    execute(how, factory, system, "random", 0, None, watch)
    assert batches > 100
