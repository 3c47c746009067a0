"""GPUs needed for a given rate: fleets of P4 whose robots all act at the same rate, under ROSA and fixed partitions.

    python -m benchmarks.paper.gpus [--rate 2.5]

Fewest servers for each size of the fleet: of `rosa` as its schedule is carried out (docs/scheduler.md), of
`rosa_published` and of partitions with ROSA's rate control by the scheduler's prediction, as in the paper's Figure 11.
Writes benchmarks/results/gpus.json and .png.
"""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import RESULTS
from benchmarks.paper.partitions import servers_for
from benchmarks.paper.published import LIBRARY, Row, workload
from rosa_server.scheduler.profiles.options import Options
from rosa_server.scheduler.search.solve import solve
from rosa_sim.fleet.baselines import WEIGHTS
from rosa_sim.fleet.scenario import load_scenario
from rosa_sim.fleet.systems import PUBLISHED, ROSA, fleet_of, system_of, without_limits

RESULT = RESULTS / "gpus"
SIZES = (8, 16, 24, 32, 48, 64, 96)
FEWEST, MOST = 4, 128
WORDS = {
    ROSA: "ROSA",
    PUBLISHED: "ROSA as published",
    "equal_partition": "equal partition, rate-controlled",
    "weighted_partition": "weighted partition, rate-controlled",
}


def fewest(suffices: Callable[[int], bool]) -> int | None:
    """The fewest servers that suffice, where more never make it worse; None: not even `MOST`."""
    low, high = FEWEST, FEWEST
    while not suffices(high):
        if high >= MOST:
            return None
        low, high = high + 1, min(MOST, high * 2)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(middle) else (middle + 1, high)
    return low


def needed(robots: int, rate_hz: float) -> Row:
    """One size of the fleet."""
    base = without_limits(load_scenario("p4").factory)

    def carried_out(servers: int) -> bool:
        system = system_of(ROSA, fleet_of(base, robots, servers), LIBRARY, 0.0)
        return system.serving is not None and system.predicted_hz >= robots * rate_hz

    def published(servers: int) -> bool:
        problem = workload("p4", robots)
        found = solve(type(problem)(servers, problem.gpu_type, problem.classes), LIBRARY, Options.paper())
        return found.feasible and found.action_throughput_hz >= robots * rate_hz

    row: Row = {"robots": robots, "actions_hz": robots * rate_hz}
    row[ROSA], row[PUBLISHED] = fewest(carried_out), fewest(published)
    for name, weight in WEIGHTS.items():
        row[name] = servers_for(workload("p4", robots), rate_hz, weight)
    return row


def aims_of(rows: Sequence[Row]) -> list[Row]:
    """ROSA needs no more GPUs than anybody else, anywhere."""
    aims: list[Row] = []
    for other in (PUBLISHED, *WEIGHTS):
        shares = [float(str(row[other])) / float(str(row[ROSA])) for row in rows]
        value = f"{min(shares):.2f}x to {max(shares):.2f}x of ROSA's"
        aims.append(
            {"aim": f"ROSA needs no more GPUs than {WORDS[other]}", "value": value, "holds": min(shares) >= 1}
        )
    return aims


def plot(rows: Sequence[Row], rate_hz: float, path: Path) -> None:
    """GPUs over actions/s."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(6, 3.8))
    for name, words in WORDS.items():
        axis.plot(
            [row["actions_hz"] for row in rows], [row[name] for row in rows], "o-", markersize=3, label=words
        )
    axis.set(
        xlabel=f"P4, actions/s of the fleet ({rate_hz:g} of each robot)", ylabel="GPUs needed", ylim=(0, None)
    )
    axis.legend(fontsize=8)
    axis.grid(visible=True, alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rate", type=float, default=2.5, help="actions per second of each robot")
    arguments = parser.parse_args()
    rows = []
    for robots in SIZES:
        rows.append(needed(robots, arguments.rate))
        print(json.dumps(rows[-1]), flush=True)
    result = {
        "name": "gpus",
        "command": f"python -m benchmarks.paper.gpus --rate {arguments.rate:g}",
        "machine": f"{platform.machine()}, prediction only",
        "date": datetime.now(UTC).date().isoformat(),
        "aims": aims_of(rows),
        "notes": [
            "Fewest H200 (derived profiles) with which every robot of P4 acts so often, all SLOs held at p99."
        ],
        "rows": rows,
    }
    RESULT.with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    plot(rows, arguments.rate, RESULT.with_suffix(".png"))


if __name__ == "__main__":
    main()
