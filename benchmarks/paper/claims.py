"""The ROSA paper's claims, executed: claim, published, ours as published and today, and whether it holds.

    python -m benchmarks.paper.claims [--seeds 2] [--seconds 20]

The fleet simulator runs the production classes (docs/fleet.md); GPUs needed and Table 3 come from the scheduler, as in
the paper. Prints the tables and writes benchmarks/results/claims.json and .png. `paper/` says what is compared.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Sequence
from pathlib import Path

from benchmarks import RESULTS
from benchmarks.conclude import ON_ONE_CORE, write
from benchmarks.paper.claim_rows import RATES, WAITED, Points, aims_of, claims_of, throughput_rows
from benchmarks.paper.executed import SIZES, WORKLOADS, Window, executed, points, waited
from benchmarks.paper.partitions import figure_11_rows
from benchmarks.paper.published import WITHIN, Row
from benchmarks.paper.report import table
from rosa_sim.fleet.compare import ProgressLine
from rosa_sim.fleet.systems import BASELINES, PUBLISHED, READINGS, ROSA

RESULT = RESULTS / "claims"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=Window.seeds)
    parser.add_argument("--seconds", type=float, default=Window.seconds, help="simulated, after the warm-up")
    arguments = parser.parse_args()
    # Robots that a baseline does not serve say so every second.
    logging.getLogger("rosa.link").setLevel(logging.ERROR)
    window, say = Window(arguments.seeds, seconds=arguments.seconds), ProgressLine()
    found: dict[tuple[str, str, int], Row] = {}
    every = points()
    for number, point in enumerate(every):
        say(f"{number} of {len(every)}: {' '.join(map(str, point))}")
        found[point] = executed(window, *point)
    late = {point: waited(window, *point) for point in WAITED}
    say.clear()
    claims, throughput = claims_of(found, late, figure_11_rows()), throughput_rows(found)
    aims, notes = aims_of(claims, found), notes_of(window)
    print("\n\n".join([*notes, *(table(rows) for rows in (aims, claims, throughput))]))
    write(
        RESULT.with_suffix(".json"),
        [*claims, *throughput],
        aims,
        notes,
        f"--seeds {window.seeds} --seconds {window.seconds:g}",
        ON_ONE_CORE,
        points=[*found.values(), *late.values()],
    )
    plot(found, RESULT.with_suffix(".png"))


def notes_of(window: Window) -> list[str]:
    return [
        f"A gain holds when ROSA as published (`{PUBLISHED}`) reaches it less {WITHIN:.0%}. `today` is ROSA with its"
        " defaults and policies. The other reading of the paper lets late robots catch up (docs/fleet.md). Tasks begin"
        f" at random times; {window.seeds} seeds, {window.seconds:g} s after"
        f" {window.warm_up_s:g} s; {', '.join(map(str, SIZES))} robots on 8 servers.",
        "All systems run behind ROSA's gateway, which answers expired calls without running them, and robots give up"
        " late calls: overloaded baselines lose calls here, where the paper's lose all. Robots that wait for late"
        " answers are executed too where that matters; see the remarks.",
    ]


def plot(found: Points, path: Path) -> None:
    """Qualified actions/s by robots, one panel per workload: Figures 6 (shared), 7 (dedicated) and 8 (mixes)."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 3, figsize=(11, 6.2), sharex=True)
    lines: Sequence[str] = (ROSA, *READINGS, *BASELINES)
    labels = {
        ROSA: "ROSA today",
        **dict(zip(READINGS, ("ROSA as published", "as published, catching up"), strict=True)),
    }
    styles = {ROSA: "-o", **dict.fromkeys(READINGS, "--o"), "gpu_per_robot": ":s", "gpu_per_model": ":D"}
    for axis, name in zip(axes.flat, WORKLOADS, strict=True):
        for system in lines:
            values = [float(str(found[name, system, robots]["qualified_hz"])) for robots in SIZES]
            label = labels.get(system, system.replace("_", " "))
            axis.plot(SIZES, values, styles.get(system, "-^"), markersize=3, linewidth=1.2, label=label)
        published = {robots: hz for (workload, robots), hz in RATES.items() if workload == name}
        if published:
            axis.plot(list(published), list(published.values()), "kx", label="ROSA in the paper")
        axis.set_xscale("log", base=2)
        axis.set_xticks(SIZES, [str(robots) for robots in SIZES])
        axis.set_ylim(bottom=0)
        axis.set_title(name.upper(), fontsize=9)
    for axis in axes[:, 0]:
        axis.set_ylabel("SLO-qualified actions/s")
    for axis in axes[1]:
        axis.set_xlabel("robots on 8 servers")
    handles, names = axes[1, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="lower center", ncols=len(names), fontsize=8)
    figure.tight_layout(rect=(0, 0.05, 1, 1))
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    main()
