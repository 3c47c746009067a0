"""One system executed under the simulated clock: what starts when, what fails, and what came of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from rosa_contract.config.factory import Factory
from rosa_contract.config.tasks import SYSTEM1
from rosa_sim.fleet.measure import Meter, Outcome
from rosa_sim.fleet.scenario import TOGETHER, Joined, Scenario
from rosa_sim.fleet.simulation import Joining, Simulation, tasks_of
from rosa_sim.fleet.systems import System
from rosa_sim.garbage import searched_seldom

SLOWEST_HZ = 0.1  # a random start is not spread over a longer round than this rate's
Progress = Callable[[float, float], None]


def joinings(factory: Factory, system: System, start: str, seed: int) -> list[Joining]:
    """Every robot of the fleet and when its task begins: together, or at random within one planned round.

    All say hello at once and in order, as robots do that stand ready: so slots say nothing about phases.
    """
    rng = Random(f"start {seed}")
    found = []
    for entry in factory.robot_fleet:
        pipeline = factory.tasks[entry.task].pipeline
        usual_hz = 1 / pipeline.action_s
        round_s = 1 / max(system.schedule.rates_hz.get(entry.task, {}).get(SYSTEM1, usual_hz), SLOWEST_HZ)
        for index in range(entry.num_robots):
            start_s = 0.0 if start == TOGETHER else rng.random() * round_s
            found.append(Joining(f"{entry.task}-{index}", entry.task, start_s, 0.0))
    return found


@searched_seldom()
def execute(
    scenario: Scenario,
    factory: Factory,
    system: System,
    start: str,
    seed: int,
    progress: Progress | None = None,
    watch: Callable[[float, Any], None] | None = None,
    make: Callable[..., Simulation] = Simulation,
    meter: Meter | None = None,
) -> Outcome:
    """Run a system that can be executed. `progress` hears the simulated time and its end, now and then; `make` makes
    the simulation, for robots that do more than act. `meter`: one of the caller's, for the scenario's window."""
    assert system.serving is not None
    begun_s = time.perf_counter()
    end_s = scenario.warm_up_s + scenario.seconds
    window = (scenario.warm_up_s, end_s)
    robots = joinings(factory, system, start, seed)
    meter = meter or Meter(tasks_of(factory, robots), *window)
    simulation = make(
        system.serving, robots, meter, scenario.network, scenario.body.habits, seed, window, watch
    )
    for joined in scenario.joined:
        simulation.at(joined.at_s, partial(_join, simulation, meter, factory, joined))
    for lost in scenario.lost_servers:
        server = server_of(system, lost.component)
        simulation.at(lost.at_s, partial(simulation.lose_server, server))
        if lost.back_s is not None:
            simulation.at(lost.at_s + lost.back_s, partial(simulation.return_server, server))
    step_s = max(1.0, end_s / 50)
    while simulation.now_s < end_s:
        simulation.run(min(end_s, simulation.now_s + step_s))
        if progress is not None:
            progress(simulation.now_s, end_s)
    utilisation = {name: gpu.busy_s / meter.seconds for name, gpu in sorted(simulation.gpus.items())}
    served = sum(robot.link.ready for robot in simulation.robots.values())
    return meter.outcome(utilisation, served, simulation.events, time.perf_counter() - begun_s)


def server_of(system: System, component: str) -> str:
    """The first server that answers a component."""
    assert system.serving is not None
    placement = system.serving.placement
    for routing in (placement.routes or {}).values():
        if component in routing:
            return placement.replicas[routing[component]].server
    raise KeyError(f"{system.name} has no server for {component}")


def _join(simulation: Simulation, meter: Meter, factory: Factory, group: Joined, now_s: float) -> None:
    for index in range(group.robots):
        name = f"{group.task}-joined-{group.at_s:g}-{index}"
        meter.add(name, factory.tasks[group.task])
        simulation.join(Joining(name, group.task, now_s))
