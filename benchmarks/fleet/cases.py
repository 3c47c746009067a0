"""Factories in which plans once did not come true: executed as predicted, from both starts and on three networks?

    python -m benchmarks.fleet.cases [--seeds 2] [--seconds 30] [--resume] [--only factory_24/85/together]

The factories and their profiles are in benchmarks/fleet/factories/; Mix4 with 1,000 robots is the shipped one. Writes
benchmarks/results/cases.json after each row. Rows of earlier runs stay until they are measured again; each says at
which commit it was. `--resume` keeps those of the present one, `--only` all others.
"""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from benchmarks import RESULTS
from benchmarks.conclude import ON_ONE_CORE, print_aims, write
from benchmarks.provenance import code, measured, measured_at
from rosa_contract.config.factory import Factory, load_factory
from rosa_contract.shipped import shipped
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_server.simulator.network import Network
from rosa_sim.fleet.execute import execute
from rosa_sim.fleet.scenario import STARTS, Joined, Scenario
from rosa_sim.fleet.systems import ROSA, System, fleet_of, system_of, without_limits

RESULT = RESULTS / "cases.json"
HERE = Path(__file__).parent / "factories"
VARIATION, WARM_UP_S = 0.03, 10.0
NEAR, MIN_MEET = 0.03, 0.99
LARGE, LARGE_S = 1000, 8.0  # robots from which on it is measured for so long, with one seed
NETWORKS = {"local": Network(0.5), "2 ms of jitter": Network(0.5, 2.0), "3 ms of latency": Network(3.0)}
# Factory, robots, servers (none: as the file says), robots that join after 12 s
CASES: tuple[tuple[str, int, int | None, Joined | None], ...] = (
    ("factory_13", 18, None, None),
    ("factory_13", 18, None, Joined("task_3", 4, 12.0)),
    ("factory_20", 16, None, None),
    ("factory_24", 85, None, None),
    ("mix4", LARGE, 125, None),
)
Row = dict[str, Any]
Case = tuple[str, int, int | None]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--only", help="these rows again, as factory/robots/start, separated by commas")
    arguments = parser.parse_args()
    logging.getLogger("rosa.link").setLevel(logging.ERROR)
    kept: list[Row] = json.loads(RESULT.read_text())["rows"] if RESULT.exists() else []
    only = arguments.only.split(",") if arguments.only else None

    def again(row: Row) -> bool:
        if only is not None:
            return f"{row['scenario']}/{row['robots']}/{row['start']}" in only
        return not arguments.resume or row["commit"] != code()

    rows = kept
    for row, rows in measured(plan_of(arguments.seeds, arguments.seconds), kept, again):
        print(json.dumps(row), flush=True)
        notes = [
            f"{arguments.seeds} seeds of {arguments.seconds:g} s, {LARGE:,} robots one seed of {LARGE_S:g} s;"
            f" {WARM_UP_S:g} s left out; service times vary by {VARIATION:.0%}. The least share in time of all seeds.",
            measured_at(rows),
        ]
        write(RESULT, rows, aims_of(rows), notes, how=ON_ONE_CORE)
    print_aims(aims_of(rows))
    return 0


def plan_of(seeds: int, seconds: float) -> list[tuple[Row, Callable[[], Row]]]:
    """Every row, with what measures it."""
    plan: list[tuple[Row, Callable[[], Row]]] = []
    for name, robots, servers, joined in CASES:
        for network in NETWORKS:
            for start in STARTS:
                what = f"{network}, {joined.robots} robots join" if joined else network
                head: Row = {"scenario": name, "robots": robots, "what": what, "start": start}
                large = robots >= LARGE
                how = (1, LARGE_S) if large else (seeds, seconds)
                run = partial(_run, (name, robots, servers), joined, NETWORKS[network], start, *how)
                plan.append((head, run))
    return plan


@cache
def _planned(case: Case) -> tuple[Factory, System]:
    name, robots, servers = case
    own = HERE / f"{name}.yaml"
    path = own if own.exists() else shipped("configs", "paper") / f"{name}.yaml"
    factory = without_limits(fleet_of(load_factory(path), robots, servers))
    library = ProfileLibrary(HERE / "profiles") if own.exists() else ProfileLibrary()
    return factory, system_of(ROSA, factory, library, VARIATION)


def _run(case: Case, joined: Joined | None, network: Network, start: str, seeds: int, seconds: float) -> Row:
    factory, system = _planned(case)
    if system.serving is None:
        return {"refused": system.refused}
    plain = Scenario("", (case[1],), warm_up_s=WARM_UP_S, seconds=seconds, network=network)
    scenario = replace(plain, joined=(joined,) if joined else ())
    runs = [execute(scenario, factory, system, start, seed) for seed in range(seeds)]
    meet = {part: min(run.meet[part] for run in runs) for part in runs[0].meet}
    return {
        "refused": "",
        "served": min(run.served for run in runs),
        "planned_hz": round(system.schedule.action_throughput_hz, 2),
        "predicted_hz": round(system.predicted_hz, 2),
        "executed_hz": round(sum(run.executed_hz for run in runs) / seeds, 2),
        "qualified_hz": round(sum(run.qualified_hz for run in runs) / seeds, 2),
        "meet": {part: round(share, 4) for part, share in meet.items()},
    }


def aims_of(rows: Sequence[Row]) -> list[Row]:
    """What is wanted, and what came of it."""
    served = [row for row in rows if not row["refused"]]
    local = [row for row in served if row["what"] == "local"]
    far = [_named(row) for row in local if abs(row["executed_hz"] / row["predicted_hz"] - 1) > NEAR]
    late = [_named(row) for row in served if min(row["meet"].values()) < MIN_MEET]
    below = [_named(row) for row in served if row["executed_hz"] < row["planned_hz"]]
    refused = [_named(row) for row in rows if row["refused"]]

    def none(aim: str, found: Sequence[str], of: Sequence[Row]) -> Row:
        value = f"{len(of) - len(found)} of {len(of)}"
        return {
            "aim": aim,
            "value": f"{value}, not {'; '.join(found)}" if found else value,
            "holds": not found,
        }

    return [
        none("all are served", refused, rows),
        none("executed as predicted within 3 %, both starts", far, local),
        none("every component in time in 99 % of calls, on every network", late, served),
        none("never below the schedule's own rates", below, served),
    ]


def _named(row: Row) -> str:
    return f"{row['scenario']} with {row['robots']} robots, {row['what']}, {row['start']}"


if __name__ == "__main__":
    raise SystemExit(main())
