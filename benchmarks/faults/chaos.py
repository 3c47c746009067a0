"""A night of chaos as a result: how much was simulated, what went wrong on purpose, and which promises were broken.

    python scripts/compiled.py -m benchmarks.faults.chaos [--nodes] [--robot-hours 10000] [--first-seed 0]

Goes on with the run of `make chaos` (.cache/chaos), or only writes it down when that has come so far. Writes
benchmarks/results/chaos.json and chaos.png; with `--nodes`, several gateways of one schedule, chaos_nodes.json and
chaos_nodes.png.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import RESULTS, command_of
from benchmarks.conclude import SIMULATED, print_aims, write
from rosa_sim.chaos.__main__ import FOLDER
from rosa_sim.chaos.night import night, version
from rosa_sim.chaos.nodes_plan import nodes_plan_of
from rosa_sim.chaos.plan import plan_of

AIM_HOURS, NODES_AIM_HOURS = 10_000.0, 1000.0
Row = dict[str, Any]


def rows_of(summary: Mapping[str, Any]) -> list[Row]:
    """Faults by kind, and answers of the gateways by cause."""
    rows = [{"what": "fault", "kind": kind, "count": count} for kind, count in summary["faults"].items()]
    answers = {
        name.removeprefix("answer "): count
        for name, count in summary["counts"].items()
        if name.startswith("answer ")
    }
    rows += [{"what": "answer", "kind": kind, "count": count} for kind, count in answers.items()]
    hours = summary.get("hours_of", {})
    return [*rows, *({"what": "hours", "kind": name, "count": count} for name, count in hours.items())]


def aims_of(summary: Mapping[str, Any], wanted: float = AIM_HOURS) -> list[Row]:
    """Enough was tried, and nothing broke."""
    hours, broken = summary["robot_hours"], summary["broken"]
    seeds = summary["next_seed"] - summary["first_seed"] + len(summary["done"])
    return [
        {
            "aim": f"{wanted:,.0f} robot-hours of random faults",
            "value": f"{hours:,.0f} robot-hours, {seeds:,} seeds, {summary['events']:,} events",
            "holds": hours >= wanted,
        },
        {
            "aim": "every promise of docs/chaos.md held after every event",
            "value": "; ".join(f"seed {seed}: {words}" for seed, words in broken.items())
            or "none was broken",
            "holds": not broken,
        },
    ]


def plot(rows: Sequence[Row], path: Path) -> None:
    """Both tables as bars."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(10, 3.8))
    for axis, what, title in zip(axes, ("fault", "answer"), ("faults", "answers to robots"), strict=True):
        bars = [(row["kind"], row["count"]) for row in reversed(rows) if row["what"] == what]
        axis.barh([kind for kind, _ in bars], [count for _, count in bars], color="0.45")
        axis.set_title(title, fontsize=10)
        axis.tick_params(labelsize=8)
    axes[1].set_xscale("log")
    figure.tight_layout()
    figure.savefig(path, dpi=130)


def main() -> int:
    """Exit status 1 when a promise was broken."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--nodes", action="store_true", help="several gateways of one schedule instead of one"
    )
    parser.add_argument("--robot-hours", type=float, help="default: what is wanted")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--folder", type=Path, help="where the run is kept")
    arguments = parser.parse_args()
    nodes, first = arguments.nodes, arguments.first_seed
    wanted, draw = (NODES_AIM_HOURS, nodes_plan_of) if nodes else (AIM_HOURS, plan_of)
    folder = arguments.folder or (FOLDER / "nodes" if nodes else FOLDER)
    robot_hours = wanted if arguments.robot_hours is None else arguments.robot_hours
    status = night(robot_hours, first, arguments.processes, folder, False, print, draw)
    summary = json.loads((folder / "summary.json").read_text())
    rows, aims = rows_of(summary), aims_of(summary, wanted)
    print_aims(aims)
    note = f"{summary['cpu_s'] / 3600:.1f} hours of processes; seeds from {summary['first_seed']} on."
    of = summary["hours_of"]
    versions = (
        f"{of.get(version(), 0.0):,.0f} robot-hours with the decisions as they are now, version {version()}."
    )
    result, options = RESULTS / ("chaos_nodes" if nodes else "chaos"), "--nodes" if nodes else ""
    command = command_of("chaos")
    write(result.with_suffix(".json"), rows, aims, [note, versions], options, SIMULATED, command)
    plot(rows, result.with_suffix(".png"))
    return status


if __name__ == "__main__":
    raise SystemExit(main())
