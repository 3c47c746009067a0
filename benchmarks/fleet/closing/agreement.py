"""Small fleets with physics and the policy in the loop, beside the same fleets with drawn pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import count
from math import sqrt
from typing import Any

from benchmarks import ROOT
from benchmarks.fleet.closing.fleets import (
    LIBRARY,
    SETTLE_MS,
    VARIATION,
    Row,
    drawn,
    factory_of,
    run,
    steps_of,
)
from rosa_contract.config.robot import load_robot
from rosa_contract.config.tasks import Task
from rosa_server.models.panda.flow_policy import FlowPolicyBackend
from rosa_server.simulator.network import Network
from rosa_sim.cell.render import SceneRenderer
from rosa_sim.closed_loop.cells import PieceCell
from rosa_sim.closed_loop.fleet import FleetTally
from rosa_sim.closed_loop.physics import PhysicalCell
from rosa_sim.closed_loop.table import Table
from rosa_sim.fleet.scenario import Body, load_scenario
from rosa_sim.fleet.systems import system_of, without_limits
from rosa_sim.training.data.pictures import POLICY_CAMERAS

# system, robots, execution horizon and settling in ms, seconds, changes of the scenario
FLEETS: tuple[tuple[str, int, float, float, float, dict[str, Any]], ...] = (
    ("rosa", 8, 200.0, 0.0, 150.0, {}),
    ("rosa", 8, 400.0, 0.0, 100.0, {}),
    ("weighted_partition", 16, 200.0, 0.0, 80.0, {}),
    ("equal_partition", 16, 400.0, 0.0, 60.0, {}),
    ("rosa", 8, 400.0, 0.0, 100.0, {"network": Network(0.5, 0.0, 0.02)}),
    ("rosa", 8, 200.0, SETTLE_MS, 100.0, {}),
)
DRAWN_SEEDS = 8
FIRST_SEED, PER_ROBOT = 3_000_000, 1000  # cells that the trials have not seen
Z_95 = 1.96


def rows(table: Table, kept: Callable[[str, Callable[[], Any]], Any]) -> list[Row]:
    """Every fleet, both ways."""
    return [_compared(table, kept, *fleet) for fleet in FLEETS]


def _compared(
    table: Table,
    kept: Callable[[str, Callable[[], Any]], Any],
    name: str,
    robots: int,
    period_ms: float,
    settle_ms: float,
    seconds: float,
    changes: dict[str, Any],
) -> Row:
    factory = without_limits(factory_of(robots, period_ms, settle_ms))
    system = system_of(name, factory, LIBRARY, VARIATION)
    assert system.serving is not None
    scenario = replace(
        load_scenario("p4").scenario, seconds=seconds, warm_up_s=15.0, body=Body(operator_s=10.0), **changes
    )
    loss = scenario.network.loss

    def in_physics() -> Any:
        policy, renderer = FlowPolicyBackend(), SceneRenderer(POLICY_CAMERAS)
        policy.load()
        spec, first = load_robot(ROOT / "configs" / "robots" / "panda.yaml"), count(FIRST_SEED, PER_ROBOT)

        def cell_of(_: str, task: Task) -> PieceCell:
            return PhysicalCell(renderer, _seeds(next(first)), steps_of(task))

        tally, outcome = run(scenario, factory, system, 0, cell_of, policy=policy, spec=spec)
        renderer.close()
        return _plain(tally, outcome.executed_hz, robots)

    def from_table() -> Any:
        runs = [
            run(scenario, factory, system, seed, partial(drawn, table, seed)) for seed in range(DRAWN_SEEDS)
        ]
        found = [_plain(tally, outcome.executed_hz, robots) for tally, outcome in runs]
        return {key: [one for part in found for one in part[key]] for key in found[0]}

    label = f"{name}-{robots}-{period_ms:g}-{loss:g}" + (f"-settle-{settle_ms:g}" if settle_ms else "")
    physics, table_runs = kept(f"agree-physics-{label}", in_physics), kept(f"agree-drawn-{label}", from_table)
    (task,) = factory.tasks.values()
    steps = steps_of(task)
    row: Row = {
        "part": "agreement",
        "system": name,
        "robots": robots,
        "what": f"{period_ms:g} ms"
        + (f", {loss:.0%} of messages lost" if loss else "")
        + (f", settles {settle_ms:g} ms" if settle_ms else ""),
        "pieces_in_physics": len(physics["took_s"]),
    }
    for key, words in (("took_s", "seconds_per_piece"), ("per_hour", "per_robot_hour")):
        ours, theirs = _mean(physics[key]), _mean(table_runs[key])
        # What is drawn is as unsure as the trials that it is drawn from.
        unsure = theirs[0] * table.error(steps)
        half = Z_95 * sqrt(ours[1] ** 2 + theirs[1] ** 2 + unsure**2)
        row |= {
            f"{words}_physics": round(ours[0], 2),
            f"{words}_drawn": round(theirs[0], 2),
            f"{words}_difference": f"{theirs[0] / ours[0] - 1:+.1%}",
            f"{words}_95": f"{half / ours[0]:.1%}",
            f"{words}_agrees": abs(ours[0] - theirs[0]) <= half,
        }
    row |= {
        "failed_physics": round(physics["failed"][0], 3),
        "failed_drawn": round(_mean(table_runs["failed"])[0], 3),
        "actions_hz_physics": round(physics["actions_hz"][0], 2),
        "actions_hz_drawn": round(_mean(table_runs["actions_hz"])[0], 2),
    }
    return row


def _plain(tally: FleetTally, actions_hz: float, robots: int) -> dict[str, list[float]]:
    ended = tally.failed + len(tally.took_s)
    return {
        "took_s": tally.took_s,
        "per_hour": tally.per_hour(robots),
        "failed": [tally.failed / max(1, ended)],
        "actions_hz": [actions_hz],
    }


def _seeds(first: int) -> Iterator[int]:
    return count(first)


def _mean(values: list[float]) -> tuple[float, float]:
    """Mean and its standard error."""
    mean = sum(values) / len(values)
    variance = sum((one - mean) ** 2 for one in values) / max(1, len(values) - 1)
    return mean, sqrt(variance / len(values))
