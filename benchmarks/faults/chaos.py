"""A night of chaos as a result: how much was simulated, what went wrong on purpose, and which promises were broken.

    python scripts/compiled.py -m benchmarks.faults.chaos [--robot-hours 10000] [--first-seed 0]

Goes on with the run of `make chaos` (.cache/chaos), or only writes it down when that has come so far. Writes
benchmarks/results/chaos.json and chaos.png.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import RESULTS
from benchmarks.conclude import SIMULATED, print_aims, write
from rosa_sim.chaos.__main__ import FOLDER
from rosa_sim.chaos.night import night

RESULT = RESULTS / "chaos"
AIM_HOURS = 10_000.0
Row = dict[str, Any]


def rows_of(summary: Mapping[str, Any]) -> list[Row]:
    """Faults by kind, and answers of the gateways by cause."""
    rows = [{"what": "fault", "kind": kind, "count": count} for kind, count in summary["faults"].items()]
    answers = {
        name.removeprefix("answer "): count
        for name, count in summary["counts"].items()
        if name.startswith("answer ")
    }
    return [*rows, *({"what": "answer", "kind": kind, "count": count} for kind, count in answers.items())]


def aims_of(summary: Mapping[str, Any]) -> list[Row]:
    """Enough was tried, and nothing broke."""
    hours, broken = summary["robot_hours"], summary["broken"]
    seeds = summary["next_seed"] - summary["first_seed"] + len(summary["done"])
    return [
        {
            "aim": f"{AIM_HOURS:,.0f} robot-hours of random faults",
            "value": f"{hours:,.0f} robot-hours, {seeds:,} seeds, {summary['events']:,} events",
            "holds": hours >= AIM_HOURS,
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
    parser.add_argument("--robot-hours", type=float, default=AIM_HOURS)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the run is kept")
    arguments = parser.parse_args()
    robot_hours, first = arguments.robot_hours, arguments.first_seed
    status = night(robot_hours, first, os.cpu_count() or 1, arguments.folder, False, print)
    summary = json.loads((arguments.folder / "summary.json").read_text())
    rows, aims = rows_of(summary), aims_of(summary)
    print_aims(aims)
    note = f"{summary['cpu_s'] / 3600:.1f} hours of processes; seeds from {summary['first_seed']} on."
    write(RESULT.with_suffix(".json"), rows, aims, [note], how=SIMULATED)
    plot(rows, RESULT.with_suffix(".png"))
    return status


if __name__ == "__main__":
    raise SystemExit(main())
