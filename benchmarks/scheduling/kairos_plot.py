"""The picture of `kairos.py`: latency against load for every order, what no schedule is below, fleets, two tiers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.scheduling.kairos_report import BOUND, FCFS, KNOWN, LAS, NEW_FIRST
from rosa_contract.config.gateway import KAIROS, REMAINING_WORK
from rosa_sim.kairos.traces import WORKLOADS

STYLES = (
    (FCFS, "tab:gray", "o"),
    (LAS, "tab:orange", "s"),
    (KAIROS, "tab:blue", "^"),
    (NEW_FIRST, "tab:cyan", "v"),
    (REMAINING_WORK, "tab:olive", "D"),
    (KNOWN, "tab:green", "d"),
    (BOUND, "black", "x"),
)


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    """Average and P95 of a task's latency against load, over first come's; below them fleets, and the two tiers."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(3, len(WORKLOADS), figsize=(13, 11))
    for column, workload in enumerate(WORKLOADS):
        for line, (key, words) in enumerate((("mean_s", "average"), ("p95_s", "P95"))):
            axis = axes[line][column]
            for order, colour, marker in STYLES:
                for horizon, style in (("static", "--"), ("dynamic", "-")):
                    chosen = [
                        one
                        for one in rows
                        if (one["part"], one.get("workload")) == ("online", workload.name)
                        and (one["order"], one["horizon"]) == (order, horizon)
                    ]
                    xs = [one["load"] for one in chosen]
                    axis.plot(
                        xs, [one[key] for one in chosen], style, color=colour, marker=marker, label=order
                    )
            for horizon, style in (("static", "--"), ("dynamic", "-")) if key == "mean_s" else ():
                chosen = [
                    one
                    for one in rows
                    if (one["part"], one.get("of")) == ("bound", "online")
                    and (one["workload"], one["horizon"]) == (workload.name, horizon)
                ]
                xs, ys = [one["load"] for one in chosen], [one["mean_s"] for one in chosen]
                axis.plot(xs, ys, style, color="tab:red", label="no schedule is below")
            axis.set(title=f"{workload.name}: {words}", xlabel="load", yscale="log")
            axis.yaxis.set_major_formatter("{x:g}")
            axis.yaxis.set_minor_formatter("{x:g}")
            axis.tick_params(axis="y", which="both", labelsize=7)
            axis.grid(alpha=0.3, which="both")
    for line in (0, 1):
        axes[line][0].set_ylabel("task latency (s), log scale")
    fleet, tiers, legend = axes[2]
    for order, colour, marker in STYLES:
        chosen = [
            one
            for one in rows
            if one["part"] == "fleet" and (one["order"], one["horizon"]) == (order, "static")
        ]
        fleet.plot(
            [one["robots"] for one in chosen], [one["mean_s"] for one in chosen], marker=marker, color=colour
        )
        fleet.plot([one["robots"] for one in chosen], [one["p95_s"] for one in chosen], ":", color=colour)
    chosen = [
        one
        for one in rows
        if (one["part"], one.get("of"), one.get("horizon")) == ("bound", "fleet", "static")
    ]
    fleet.plot([one["robots"] for one in chosen], [one["mean_s"] for one in chosen], color="tab:red")
    fleet.set(title="back to back, static: average, dotted P95", xlabel="robots", ylabel="task latency (s)")
    for name in dict.fromkeys(one["servers"] for one in rows if one["part"] == "tiers"):
        chosen = [one for one in rows if one["part"] == "tiers" and one["servers"] == name]
        tiers.plot([one["load"] for one in chosen], [one["mean_s"] for one in chosen], "o-", label=name)
    tiers.set_yscale("log")
    tiers.set(title="edge and cloud, 100 ms link, kairos", xlabel="load")
    tiers.legend(fontsize=7)
    legend.axis("off")
    handles, labels = axes[0][0].get_legend_handles_labels()
    named = dict(zip(labels, handles, strict=True))
    legend.legend(named.values(), named.keys(), loc="center", frameon=False)
    legend.set_title("dashed: static horizons; solid: dynamic", y=0.85, fontsize=10)
    figure.tight_layout()
    figure.savefig(path, dpi=90)
    plt.close(figure)
