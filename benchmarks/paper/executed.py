"""The systems of the paper's evaluation, executed by the fleet simulator (docs/fleet.md)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from benchmarks.paper.partitions import STATIC, static_schedule
from benchmarks.paper.published import LIBRARY, Row
from rosa_contract.config.factory import Factory
from rosa_contract.config.tasks import SYSTEM1
from rosa_server.scheduler.choosing.limit import limit_hz
from rosa_server.scheduler.problem import problem_from
from rosa_sim.fleet.compare import SIMULATED, row_of
from rosa_sim.fleet.execute import execute, joinings
from rosa_sim.fleet.measure import Meter
from rosa_sim.fleet.scenario import RANDOM, Loaded, load_scenario
from rosa_sim.fleet.simulation import Simulation, tasks_of
from rosa_sim.fleet.systems import (
    BASELINES,
    PUBLISHED,
    READINGS,
    ROSA,
    System,
    executable,
    fleet_of,
    system_of,
    without_limits,
)

WORKLOADS = ("p1", "p2", "p3", "p4", "mix2", "mix4")
SIZES = (8, 16, 32, 64)
UNCAPPED = {f"{name}, uncapped": name for name in (ROSA, PUBLISHED)}  # the same servers, no rates
PARTITIONS = {f"static {':'.join(map(str, shares))}": shares for shares in STATIC}  # Table 3
EVERYWHERE = (ROSA, *READINGS, *BASELINES)
ON_P4 = (*UNCAPPED, *PARTITIONS)
PATIENT_MS = 600_000.0  # a robot that waits so long for System 1 waits for every answer


@dataclass(frozen=True)
class Window:
    """How long every point is executed, and how often."""

    seeds: int = 2
    warm_up_s: float = 10.0
    seconds: float = 20.0

    def of(self, workload: str) -> Loaded:
        """A shipped scenario that is run for so long, its tasks beginning at random times."""
        return load_scenario(workload).changed(
            seeds=self.seeds, warm_up_s=self.warm_up_s, seconds=self.seconds, start=(RANDOM,)
        )


def points() -> list[tuple[str, str, int]]:
    """Workload, system and robots of everything that is executed."""
    everywhere = [(name, system, size) for name in WORKLOADS for system in EVERYWHERE for size in SIZES]
    return everywhere + [("p4", system, size) for system in ON_P4 for size in SIZES]


def executed(window: Window, workload: str, system: str, robots: int) -> Row:
    """One point, as a row of `rosa bench fleet`."""
    loaded = window.of(workload)
    factory = without_limits(fleet_of(loaded.factory, robots))
    made = system_for(system, factory, robots, loaded.scenario.service_variation)
    if made is None:
        refused = f"{system} carries no rate with {robots} robots"
        return {
            "scenario": workload,
            "system": system,
            "robots": robots,
            "raw_hz": 0.0,
            "qualified_hz": 0.0,
            "meet": {},
            "refused": refused,
        }
    head = (robots, factory.server_cluster.num_servers, RANDOM, limit_hz(problem_from(factory), LIBRARY))
    return row_of(
        loaded,
        SIMULATED,
        replace(made, name=system),
        factory,
        head,
        lambda one, of, start, seed: execute(loaded.scenario, of, one, start, seed),
    ).plain()


def system_for(system: str, factory: Factory, robots: int, variation: float) -> System | None:
    """A system by its name here; none where a static partition serves nobody."""
    if system in PARTITIONS:
        schedule = static_schedule(robots, PARTITIONS[system])
        return None if schedule is None else executable(PUBLISHED, factory, schedule, LIBRARY, variation)
    if system not in UNCAPPED:
        return system_of(system, factory, LIBRARY, variation)
    capped = system_of(UNCAPPED[system], factory, LIBRARY, variation)
    assert capped.serving is not None
    placement = replace(capped.serving.placement, rates_hz={})
    return replace(capped, serving=replace(capped.serving, placement=placement, admission=None))


def waited(window: Window, workload: str, system: str, robots: int) -> Row:
    """The same point with robots that wait for every System 1 answer, as the paper's load generator does.

    Nothing expires at the gateway, and nothing is sent again. `qualified_hz`: raw actions/s times the share within the
    real SLO. For workloads of one task.
    """
    loaded = window.of(workload)
    real = without_limits(fleet_of(loaded.factory, robots))
    (entry,) = real.robot_fleet
    made = system_for(system, real, robots, loaded.scenario.service_variation)
    assert made is not None
    assert made.serving is not None
    task = real.tasks[entry.task]
    system1 = replace(task.components[SYSTEM1], slo_ms=PATIENT_MS)
    waiting = replace(task, components={**task.components, SYSTEM1: system1})
    patient = replace(made.serving.factory, tasks={**real.tasks, entry.task: waiting})
    slo_ms = task.components[SYSTEM1].slo_ms
    end_s = window.warm_up_s + window.seconds
    latencies: list[float] = []
    for seed in range(window.seeds):
        fleet = joinings(patient, made, RANDOM, seed)
        meter = Meter(tasks_of(patient, fleet), window.warm_up_s, end_s)
        serving = replace(made.serving, factory=patient)
        simulation = Simulation(
            serving,
            fleet,
            meter,
            loaded.scenario.network,
            loaded.scenario.body.habits,
            seed,
            (window.warm_up_s, end_s),
            None,
        )
        simulation.run(end_s)
        latencies += meter.calls[SYSTEM1].latency_ms
    raw_hz = len(latencies) / window.seeds / window.seconds
    share = float(np.mean(np.array(latencies) <= slo_ms)) if latencies else 0.0
    return {
        "scenario": workload,
        "system": f"{system}, late answers waited for",
        "robots": robots,
        "raw_hz": round(raw_hz, 3),
        "qualified_hz": round(raw_hz * share, 3),
        "meet": {SYSTEM1: round(share, 5)},
        "p50_ms": {SYSTEM1: round(float(np.median(latencies)), 1) if latencies else 0.0},
    }
