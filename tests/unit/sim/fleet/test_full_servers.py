"""P4 with 96 robots on 8 servers: what a plan promises comes true where servers are full, on a bad network and after a
failure. Simulated, so the machine's speed does not matter."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_server.serving.core.queueing.actions import Reply
from rosa_server.simulator.network import Network
from rosa_sim.fleet.execute import execute
from rosa_sim.fleet.measure import Outcome
from rosa_sim.fleet.scenario import RANDOM, TOGETHER, LostServer, load_scenario
from rosa_sim.fleet.systems import System, fleet_of, system_of, without_limits

FACTORY = without_limits(fleet_of(load_scenario("p4").factory, 96))
LOST_S, GONE_S, END_S = 6.0, 5.0, 18.0


@cache
def rosa() -> System:
    return system_of("rosa", FACTORY, ProfileLibrary(), 0.03)


class Answers:
    """When each robot got an action."""

    def __init__(self) -> None:
        self.times_s: dict[str, list[float]] = {}

    def __call__(self, now_s: float, action: Any) -> None:
        if isinstance(action, Reply) and action.call.component == "system1" and action.status == "ok":
            self.times_s.setdefault(action.call.robot_id, []).append(now_s)


def executed(start: str = RANDOM, watch: Answers | None = None, **changes: Any) -> Outcome:
    scenario = replace(load_scenario("p4").scenario, **{"warm_up_s": 10.0, "seconds": 8.0, **changes})
    return execute(scenario, FACTORY, rosa(), start, 0, None, watch)


@pytest.mark.slow
@pytest.mark.parametrize("start", [RANDOM, TOGETHER])
def test_what_is_planned_is_executed_and_everything_is_in_time(start: str) -> None:
    outcome = executed(start)
    assert outcome.qualified_hz >= 0.97 * rosa().predicted_hz
    assert min(outcome.meet.values()) >= 0.99


@pytest.mark.slow
@pytest.mark.parametrize("jitter_ms", [1.0, 5.0])
def test_jitter_costs_little(jitter_ms: float) -> None:
    outcome = executed(network=Network(0.5, jitter_ms))
    assert outcome.qualified_hz >= 0.92 * rosa().predicted_hz, "over a minute it is within 5 %"
    assert min(outcome.meet.values()) >= 0.985


@pytest.mark.slow
@pytest.mark.parametrize("component", ["system2", "safety"])
def test_everybody_acts_again_soon_after_a_server_was_lost(component: str) -> None:
    answers = Answers()
    lost = (LostServer(component, LOST_S, GONE_S),)
    executed(watch=answers, lost_servers=lost, warm_up_s=0.0, seconds=END_S)
    assert len(answers.times_s) == 96
    for robot, times_s in answers.times_s.items():
        moments = [LOST_S, *(time_s for time_s in times_s if time_s > LOST_S), END_S]
        assert max(later - earlier for earlier, later in itertools.pairwise(moments)) < 10.0, robot
