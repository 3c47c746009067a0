"""What `kairos.py` measured against the published ranges, and its picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rosa_contract.gateway import Gateway
from rosa_sim.kairos.traces import WORKLOADS

FCFS, LAS, AWARE = "first_come", "least_attained_service", "execution_aware"
LOADS = (0.7, 1.0, 1.5, 2.0)
BUCKETS = (2, 5, 10, 20, 0)
STYLES = ((FCFS, "tab:gray", "o"), (LAS, "tab:orange", "s"), (AWARE, "tab:blue", "^"))


def find(rows: list[dict[str, Any]], **what: Any) -> dict[str, Any]:
    return next(one for one in rows if all(one.get(key) == value for key, value in what.items()))


def saved(new: dict[str, Any], old: dict[str, Any], key: str = "mean_s") -> float:
    """By how many per cent a latency is lower."""
    return round(100 * (1 - float(new[key]) / float(old[key])), 1)


def aims(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The published ranges; an aim holds when every workload reaches the lower end of its range."""
    names = [workload.name for workload in WORKLOADS]
    peak = {"part": "online", "load": LOADS[-1]}
    both = (FCFS, LAS)

    def spread(new: tuple[str, str], old: str, key: str, baselines: tuple[str, ...] = both) -> list[float]:
        return [
            saved(
                find(rows, **peak, workload=name, order=new[0] or order, horizon=new[1]),
                find(rows, **peak, workload=name, order=order, horizon=old),
                key,
            )
            for name in names
            for order in baselines
        ]

    found = []

    def aim(words: str, values: list[float], least: float) -> None:
        text = f"{min(values):.1f} to {max(values):.1f} %" if len(values) > 1 else f"{values[0]:.1f} %"
        found.append({"aim": words, "value": text, "holds": min(values) >= least})

    for order in both:
        against = f"against {order} with static horizons, peak load"
        for horizons, p25, mean, p95 in (
            ("dynamic", (39.5, 88.4), (31.8, 66.5), (22.2, 52.0)),
            ("static", (21.1, 63.5), (8.1, 39.3), (2.8, 13.2)),
        ):
            for key, what, (low, high) in (
                ("p25_s", "P25", p25),
                ("mean_s", "average", mean),
                ("p95_s", "P95", p95),
            ):
                words = (
                    f"execution-aware with {horizons} horizons: {what} lower by {low} to {high} % {against}"
                )
                aim(words, spread((AWARE, horizons), "static", key, (order,)), low)
        words = f"dynamic horizons alone: average lower by 15.1 to 54.9 % {against}"
        aim(words, spread(("", "dynamic"), "static", "mean_s", (order,)), 15.1)
    worse = [-value for value in spread((LAS, "static"), "static", "mean_s", (FCFS,))]
    aim("least attained service: average higher than first come's, peak load", worse, 0.001)
    for robots, low in ((10, 20.4), (50, 33.9), (100, 41.0)):
        new = find(rows, part="fleet", robots=robots, order=AWARE, horizon="dynamic")
        values = [
            saved(new, find(rows, part="fleet", robots=robots, order=order, horizon="static"))
            for order in both
        ]
        aim(
            f"{robots} robots back to back: average lower by at least {low} % than both baselines",
            values,
            low,
        )
    hybrid = find(rows, part="tiers", load=LOADS[-1], servers="edge and cloud")
    for other, low, high in (("edge only", 36.9, 47.7), ("cloud only", 51.9, 67.9)):
        values = [saved(hybrid, find(rows, part="tiers", load=LOADS[-1], servers=other))]
        aim(f"edge and cloud: average lower by {low} to {high} % than {other}, peak load", values, low)
    ablated = {
        "part": "ablation",
        "ageing": Gateway.order_ageing,
        "within": "longest first",
        "horizon": "dynamic",
    }
    by_buckets = {n: find(rows, **ablated, buckets=n or "none")["mean_s"] for n in BUCKETS}
    excess = [100 * (by_buckets[n] / min(by_buckets.values()) - 1) for n in (5, 10)]
    text = ", ".join(f"{n or 'none'}: {mean:.1f} s" for n, mean in by_buckets.items())
    words = "5 to 10 buckets are the best for the average (within 2 %), dynamic horizons"
    found.append({"aim": words, "value": text, "holds": max(excess) <= 2})
    ablated |= {"buckets": Gateway.order_buckets}
    values = [
        saved(find(rows, **ablated), find(rows, **{**ablated, "within": "first come"}), key)
        for key in ("p95_s", "mean_s")
    ]
    words = (
        "longest first within a bucket: P95 lower by up to 17.9 % than in order of arrival, average lower too"
    )
    found.append({"aim": words, "value": f"{values[0]} %, {values[1]} %", "holds": min(values) > 0})
    return found


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    """Average and P95 of a task's latency against load; below them fleets back to back, and the two tiers."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator, NullFormatter

    figure, (above, below) = plt.subplots(2, len(WORKLOADS), figsize=(13, 8))

    def lines(axis: Any, across: str, kind: dict[str, Any]) -> None:
        for order, colour, marker in STYLES:
            for horizon, style in (("static", "--"), ("dynamic", "-")):
                what = {**kind, "order": order, "horizon": horizon}
                chosen = [one for one in rows if one.items() >= what.items()]
                xs, label = [one[across] for one in chosen], f"{order.replace('_', ' ')}, {horizon} horizons"
                axis.plot(
                    xs, [one["mean_s"] for one in chosen], style, color=colour, marker=marker, label=label
                )
                axis.plot(xs, [one["p95_s"] for one in chosen], ":", color=colour, marker=marker, alpha=0.4)

    for axis, workload in zip(above, WORKLOADS, strict=True):
        lines(axis, "load", {"part": "online", "workload": workload.name})
        axis.set(title=f"{workload.name}: tasks arrive at one server", xlabel="load")
    fleet, tiers, legend = below[0], below[1], below[2]
    lines(fleet, "robots", {"part": "fleet"})
    fleet.set(title="robots work back to back", xlabel="robots")
    for name in ("edge only", "cloud only", "edge and cloud"):
        chosen = [one for one in rows if one["part"] == "tiers" and one["servers"] == name]
        tiers.plot([one["load"] for one in chosen], [one["mean_s"] for one in chosen], "o-", label=name)
    tiers.set(title="edge and cloud, 100 ms link", xlabel="load")
    tiers.set_ylim(bottom=0)
    tiers.legend()
    for axis in (*above, fleet):
        axis.set_yscale("log")
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.yaxis.set_major_formatter("{x:g}")
        axis.yaxis.set_minor_formatter(NullFormatter())
        axis.grid(alpha=0.3, which="both")
    for axis in (above[0], fleet):
        axis.set_ylabel("task latency (s), log scale")
    tiers.set_ylabel("average task latency (s)")
    legend.axis("off")
    legend.legend(*fleet.get_legend_handles_labels(), loc="center", frameon=False)
    legend.set_title("lines: average; dotted: P95", y=0.75, fontsize=10)
    figure.tight_layout()
    figure.savefig(path, dpi=90)
    plt.close(figure)
