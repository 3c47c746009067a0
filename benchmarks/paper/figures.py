"""Draws the ROSA paper's Figures 6 to 12 and 14 from results that are already there, in the paper's shape.

    python -m benchmarks.paper.figures

Reads claims.json and paper_schedules.json of benchmarks/results, runs nothing, and writes
benchmarks/results/figures/*.png. Bars are means over seeds, whiskers their 95 % interval.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import matplotlib

from benchmarks import RESULTS, command_of

matplotlib.use("Agg")
from matplotlib import pyplot

SIZES = (8, 16, 32, 64)
NAMES = {
    "rosa": "ROSA",
    "rosa_published": "ROSA as published",
    "equal_partition": "equal partition",
    "weighted_partition": "weighted partition",
    "gpu_per_robot": "one GPU per robot",
    "gpu_per_model": "one GPU per model",
    "rosa, uncapped": "ROSA, uncapped",
    "rosa_published_catch_up": "as published, catching up",
    "rosa_published, uncapped": "as published, uncapped",
    "static 2:2:2:2": "static 2:2:2:2",
    "static 1:3:1:3": "static 1:3:1:3",
}
OURS = ("rosa", "rosa_published", "rosa_published_catch_up")
SHARED = ("equal_partition", "weighted_partition")
DEDICATED = ("gpu_per_robot", "gpu_per_model")
Row = dict[str, Any]
Points = Mapping[tuple[str, str, int], Row]


def read(name: str) -> Row:
    """One result file. Raises `SystemExit` with the command that writes it where it is missing."""
    path = RESULTS / f"{name}.json"
    if not path.exists():
        raise SystemExit(f"{path} is missing: {command_of(name)} writes it")
    found: Row = json.loads(path.read_text())
    return found


def points_of(claims: Row) -> Points:
    """(workload, system, robots) -> what was executed."""
    return {(one["scenario"], one["system"], one["robots"]): one for one in claims["points"]}


def bars(
    axis: Any, points: Points, workload: str, systems: Sequence[str], value: Callable[[Row], float]
) -> None:
    """One group of bars per number of robots."""
    width = 0.8 / len(systems)
    for index, system in enumerate(systems):
        rows = [points[workload, system, robots] for robots in SIZES]
        places = [i + (index - (len(systems) - 1) / 2) * width for i in range(len(SIZES))]
        known = value is qualified
        whiskers = [row.get("qualified_hz_95") or 0.0 for row in rows] if known else None
        color = f"C{list(NAMES).index(system)}"
        heights = [value(row) for row in rows]
        axis.bar(places, heights, width * 0.95, yerr=whiskers, capsize=2, color=color, label=NAMES[system])
    axis.set_xticks(range(len(SIZES)), [str(robots) for robots in SIZES])
    axis.set_title(workload.upper(), fontsize=9)


def qualified(row: Row) -> float:
    return float(row["qualified_hz"])


def in_time(row: Row) -> float:
    return 100 * float(row["meet"].get("system1", 0.0)) if row["raw_hz"] else 0.0


def system1_ms(percent: str, row: Row) -> float:
    """`percent`: `p50_ms` or `p99_ms`."""
    return float(row[percent].get("system1", 0.0))


def throughput(points: Points, workloads: Sequence[str], systems: Sequence[str]) -> Any:
    """Figures 6, 7 and 8: SLO-qualified actions/s by robots."""
    figure, axes = pyplot.subplots(
        1, len(workloads), figsize=(3.1 * len(workloads) + 0.5, 3.2), squeeze=False
    )
    for axis, workload in zip(axes[0], workloads, strict=True):
        bars(axis, points, workload, systems, qualified)
        axis.set_xlabel("robots on 8 GPUs")
    axes[0][0].set_ylabel("SLO-qualified actions/s")
    return figure


def latency(points: Points) -> Any:
    """Figure 9: System 1's latency, and its share in time, on P4."""
    figure, axes = pyplot.subplots(1, 3, figsize=(10, 3.2))
    for axis, percent in ((axes[0], "p50_ms"), (axes[1], "p99_ms")):
        bars(axis, points, "p4", OURS + SHARED, partial(system1_ms, percent))
        axis.set_title(
            f"P4, System 1, {percent.removesuffix('_ms')}: a missed call counts as its SLO", fontsize=8
        )
        axis.set_ylabel("ms")
        axis.axhline(200, color="k", linewidth=0.8, linestyle=":")
    bars(axes[2], points, "p4", OURS + SHARED, in_time)
    axes[2].set_title("P4, System 1, in time", fontsize=8)
    axes[2].set_ylabel("% of calls")
    return figure


def rate_control(points: Points) -> Any:
    """Figure 10: with and without rates, on P4."""
    figure, axes = pyplot.subplots(1, 2, figsize=(8.5, 3.2))
    systems = ("rosa", "rosa, uncapped", "rosa_published", "rosa_published, uncapped")
    bars(axes[0], points, "p4", systems, qualified)
    axes[0].set_ylabel("SLO-qualified actions/s")
    bars(axes[1], points, "p4", systems, in_time)
    axes[1].set_ylabel("System 1 in time, % of calls")
    return figure


def allocation(points: Points) -> Any:
    """Figure 12: the same rates and batches on other shares of the GPUs."""
    figure, axis = pyplot.subplots(figsize=(5.5, 3.2))
    bars(axis, points, "p4", (*OURS, "static 2:2:2:2", "static 1:3:1:3"), qualified)
    axis.set_ylabel("SLO-qualified actions/s")
    return figure


def servers_needed(schedules: Row) -> Any:
    """Figure 11: GPUs that rate-controlled partitions need for what ROSA does with eight."""
    key = "Figure 11, servers needed"
    rows = [row for row in schedules["rows"] if key in row]
    figure, axes = pyplot.subplots(1, 4, figsize=(12.5, 3.2), sharey=True)
    for axis, workload in zip(axes, ("P1", "P2", "P3", "P4"), strict=True):
        same = [row for row in rows if row[key].startswith(f"{workload},")]
        for index, system in enumerate(("ROSA", *SHARED)):
            name = "rosa_published" if system == "ROSA" else system
            places = [i + 0.27 * (index - 1) for i in range(len(same))]
            color = f"C{list(NAMES).index(name)}"
            axis.bar(places, [row[system] for row in same], 0.25, color=color, label=NAMES[name])
        axis.set_xticks(range(len(same)), [row[key].split()[1] for row in same])
        axis.set_title(workload, fontsize=9)
        axis.set_xlabel("robots")
    axes[0].set_ylabel("GPUs for ROSA's rate on 8")
    return figure


def batches(schedules: Row) -> Any:
    """Figure 14: System 1's best batch, and what it gains over batches of one."""
    key = "Figure 14, System 1's batch: robots"
    rows = [row for row in schedules["rows"] if key in row]
    periods = [name for name in rows[0] if name.startswith("period")]
    cells = [[re.fullmatch(r"batch (\d+), ([\d.]+)x", row[name]) for name in periods] for row in rows]
    gains = [[float(cell[2]) if cell else 1.0 for cell in line] for line in cells]
    figure, axis = pyplot.subplots(figsize=(5.5, 3.6))
    picture = axis.imshow(gains, cmap="Blues", vmin=1.0, aspect="auto")
    for i, line in enumerate(cells):
        for j, cell in enumerate(line):
            words = f"{cell[1]}\n{cell[2]}x" if cell else "?"
            dark = gains[i][j] > 1.8
            axis.text(j, i, words, ha="center", va="center", fontsize=7, color="w" if dark else "k")
    axis.set_xticks(range(len(periods)), [name.removeprefix("period ") for name in periods])
    axis.set_yticks(range(len(rows)), [str(row[key]) for row in rows])
    axis.set(
        xlabel="action period", ylabel="robots on one GPU", title="System 1: best batch, gain over batch one"
    )
    figure.colorbar(picture)
    return figure


def save(figure: Any, name: str, legend: bool = True) -> None:
    """Write a figure with one legend below all panels."""
    handles, labels = figure.axes[0].get_legend_handles_labels()
    if legend and handles:
        figure.legend(handles, labels, loc="lower center", ncols=len(labels), fontsize=8)
        figure.tight_layout(rect=(0, 0.08, 1, 1))
    else:
        figure.tight_layout()
    path = RESULTS / "figures" / f"{name}.png"
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
    print(f"wrote {path}")


def main() -> None:
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    points, schedules = points_of(read("claims")), read("paper_schedules")
    save(throughput(points, ("p1", "p2", "p3", "p4"), OURS + SHARED), "figure_06_shared")
    save(throughput(points, ("p1", "p2", "p3", "p4"), OURS + DEDICATED), "figure_07_dedicated")
    save(throughput(points, ("mix2", "mix4"), OURS + SHARED), "figure_08_mixed")
    save(latency(points), "figure_09_latency")
    save(rate_control(points), "figure_10_rate_control")
    save(servers_needed(schedules), "figure_11_gpus")
    save(allocation(points), "figure_12_allocation")
    save(batches(schedules), "figure_14_batches", legend=False)


if __name__ == "__main__":
    main()
