"""Fleets on P4's GPUs whose robots work on drawn pieces: by robots, faults, execution horizon, and with people."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

from rosa_contract.config.factory import Factory
from rosa_contract.config.tasks import Task
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_server.simulator.network import Network
from rosa_sim.cell.rollout import STEP_S
from rosa_sim.closed_loop.cells import DrawnCell, PieceCell
from rosa_sim.closed_loop.fleet import ClosedLoop, FleetTally
from rosa_sim.closed_loop.table import Table
from rosa_sim.fleet.compare import Estimate
from rosa_sim.fleet.execute import execute
from rosa_sim.fleet.scenario import Body, LostServer, Scenario, load_scenario
from rosa_sim.fleet.systems import (
    BASELINES,
    PUBLISHED,
    ROSA,
    SYSTEMS,
    System,
    fleet_of,
    system_of,
    without_limits,
)

LIBRARY = ProfileLibrary()
SIZES = (8, 16, 32, 64)
HORIZONS_MS = (200.0, 400.0)
SETTLE_MS = 100.0
WARM_UP_S, SECONDS, SEEDS = 15.0, 30.0, 3
ROBOT_SECONDS = (
    1920  # of a fleet without faults: in 30 s a robot of few finishes three pieces, and the ends decide
)
VARIATION = 0.03
PERSON_S = 10.0
FAULTED = 32  # robots
LOST_S = 20.0
FAULTS: dict[str, dict[str, Any]] = {
    "a System 1 server is lost for good": {"lost_servers": (LostServer("system1", LOST_S, None),)},
    "System 2's server is lost for 10 s": {"lost_servers": (LostServer("system2", LOST_S, 10.0),)},
    "1 % of the messages are lost": {"network": Network(0.5, 0.0, 0.01)},
}
Row = dict[str, Any]
Kept = Callable[[str, Callable[[], Any]], Any]


def factory_of(robots: int, period_ms: float, settle_ms: float = 0.0) -> Factory:
    """P4 with this number of robots, which execute this part of each chunk and settle before they look again."""
    factory = fleet_of(load_scenario("p4").factory, robots)
    tasks = {
        name: replace(task, pipeline=replace(task.pipeline, action_period_ms=period_ms, settle_ms=settle_ms))
        for name, task in factory.tasks.items()
    }
    return replace(factory, tasks=tasks)


def steps_of(task: Task) -> int:
    """Of a chunk that a robot of this task executes."""
    return round(task.pipeline.action_period_ms / 1000 / STEP_S)


def drawn(table: Table, seed: int, name: str, task: Task) -> PieceCell:
    """A robot's cell whose pieces are drawn."""
    return DrawnCell(table, steps_of(task), STEP_S, Random(f"pieces {seed} {name}"))


def run(
    scenario: Scenario,
    factory: Factory,
    system: System,
    seed: int,
    cell_of: Callable[[str, Task], PieceCell],
    **physics: Any,
) -> tuple[FleetTally, Any]:
    """One run: what was finished, and what the fleet simulator measures."""
    tally = FleetTally(scenario.warm_up_s, scenario.warm_up_s + scenario.seconds)
    make = partial(ClosedLoop, cell_of=cell_of, tally=tally, **physics)
    return tally, execute(scenario, factory, system, "random", seed, make=make)


def measured(
    table: Table,
    system_name: str,
    robots: int,
    period_ms: float,
    people: bool,
    seconds: float = SECONDS,
    settle_ms: float = 0.0,
    **changes: Any,
) -> Row:
    """One system, over seeds. `people`: violations in a row call a person, who comes after `PERSON_S`."""
    factory = factory_of(robots, period_ms, settle_ms)
    if not people:
        factory = without_limits(factory)
    system = system_of(system_name, factory, LIBRARY, VARIATION)
    row: Row = {"system": system_name, "robots": robots}
    if system.serving is None:
        return {**row, "per_hour": 0.0, "per_hour_95": None, "refused": system.refused}
    scenario = replace(
        load_scenario("p4").scenario,
        seconds=seconds,
        warm_up_s=WARM_UP_S,
        body=Body(operator_s=PERSON_S),
        **changes,
    )
    runs = [run(scenario, factory, system, seed, partial(drawn, table, seed)) for seed in range(SEEDS)]
    rate = Estimate.of([sum(tally.per_hour(robots)) for tally, _ in runs])
    took_s = [one for tally, _ in runs for one in tally.took_s]
    pieces = sum(tally.failed + len(tally.took_s) for tally, _ in runs)
    hours = seconds / 3600 * SEEDS
    return {
        **row,
        "per_hour": round(rate.mean, 1),
        "per_hour_95": None if rate.half is None else round(rate.half, 1),
        "seconds_per_piece": round(sum(took_s) / len(took_s), 2) if took_s else None,
        "failed": round(sum(tally.failed for tally, _ in runs) / max(1, pieces), 4),
        "actions_hz": round(sum(outcome.executed_hz for _, outcome in runs) / SEEDS, 2),
        "qualified_hz": round(sum(outcome.qualified_hz for _, outcome in runs) / SEEDS, 2),
        "system1_in_time": round(min(outcome.meet["system1"] for _, outcome in runs), 4),
        "people_per_hour": round(sum(outcome.escalations for _, outcome in runs) / hours, 1),
        "refused": "",
    }


def settings() -> Iterator[tuple[str, str, tuple[str, int, float, bool], dict[str, Any]]]:
    """Part, what is different, (system, robots, horizon in ms, people), changes of the scenario."""
    for robots in SIZES:
        for system in SYSTEMS:
            yield "robots", "", (system, robots, 200.0, False), {"seconds": ROBOT_SECONDS / robots}
    for what, changes in FAULTS.items():
        for system in SYSTEMS:
            yield "faults", what, (system, FAULTED, 200.0, False), changes
    for period_ms in HORIZONS_MS:
        for system in (ROSA, PUBLISHED, "equal_partition"):
            if period_ms != 200.0:
                yield "horizon", f"{period_ms:g} ms", (system, 64, period_ms, False), {}
    for robots in SIZES:
        for system in SYSTEMS:
            changes = {"seconds": ROBOT_SECONDS / robots, "settle_ms": SETTLE_MS}
            yield "settle", f"{SETTLE_MS:g} ms", (system, robots, 200.0, False), changes
    for system in SYSTEMS:
        yield "people", "violations in a row call a person", (system, FAULTED, 200.0, True), {}


def rows(table: Table, kept: Kept) -> list[Row]:
    """Every setting; goes on where it was interrupted."""
    found = []
    for part, what, point, changes in settings():
        name = "-".join(
            map(str, ("fleet", part, what, *point, *([changes["seconds"]] if part == "robots" else [])))
        )
        row = kept(name.replace(" ", "_").replace("%", ""), partial(measured, table, *point, **changes))
        found.append({"part": part, "what": what, **row})
    return found


def best_baseline(found: list[Row], row: Row) -> Row | None:
    """The baseline that finishes the most under the same circumstances."""
    same = [
        o
        for o in found
        if all(o[k] == row[k] for k in ("part", "what", "robots")) and o["system"] in BASELINES
    ]
    return max(same, key=lambda one: float(one["per_hour"]), default=None)
