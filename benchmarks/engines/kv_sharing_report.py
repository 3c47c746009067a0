"""What `kv_sharing.py` measured against its aims, and its picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.engines.gpu_report import Row

CLOSE = 1e-3  # chunks of a float32 network, after all steps of the flow


def judged(rows: Sequence[Row], device: str) -> list[Row]:
    """The aims of this device."""
    if not rows:
        return [{"aim": "at least one row is measured", "value": "no time was left", "holds": False}]
    equal, off = [row["equal"] for row in rows], max(row["off"] for row in rows)
    of = {
        (row["work"], row["robots"], row["S"], row["N"], row["k"], row["way"]): row["speedup"] for row in rows
    }
    batched = {key: speedup for key, speedup in of.items() if key[-1] == "batched"}
    four = max(speedup for key, speedup in batched.items() if key[:2] == ("components", 1))
    aims: list[Row] = []
    if device == "cpu":
        aims.append(
            {
                "aim": "four components of one robot at least 1.4x isolated, shipped size on a CPU",
                "value": f"{four}x",
                "holds": four >= 1.4,
            }
        )
    else:
        shared = max(speedup for key, speedup in of.items() if key[-1] == "shared")
        for aim, value in (
            ("from sharing at least 1.4x", shared),
            ("in all at least 3.7x", max(batched.values())),
        ):
            holds = value >= float(aim.split()[-1].rstrip("x"))
            aims.append(
                {"aim": f"{aim} isolated, pi0.5's shape on a GPU", "value": f"{value}x", "holds": holds}
            )
    over = [row["over_together"] for row in rows if row["way"] == "batched" and row["work"] == "components"]
    aims.append(
        {
            "aim": "four components at least 1.2x one batch that looks at equal observations once",
            "value": f"{min(over)}x to {max(over)}x" if over else "not measured",
            "holds": bool(over) and min(over) >= 1.2,
        }
    )
    aims.append(
        {
            "aim": f"in 32 bits words equal isolated execution, chunks within {CLOSE:g}",
            "value": f"{sum(equal)} of {len(equal)} rows, chunks off by at most {off:.1g}",
            "holds": all(equal) and off <= CLOSE,
        }
    )
    return aims


def not_measured() -> list[Row]:
    """What a CPU cannot say."""
    words = "not measured: run with --device cuda"
    return [
        {
            "model": "pi0.5's shape, bf16, GPU",
            "work": work,
            "way": "isolated, together, shared, batched",
            "actions_hz": words,
        }
        for work in ("components", "paper")
    ]


def draw(rows: Sequence[Row], path: Path, title: str) -> None:
    """Action frequency by N as Figure 6, a panel for each S; and the components of one and several robots."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    sweep = [row for row in rows if row["work"] == "paper"]
    together = [row for row in rows if row["work"] == "components"]
    steps = sorted({row["S"] for row in sweep})
    panels = 1 + len(steps)
    figure, axes = pyplot.subplots(
        1, panels, figsize=(4.2 * panels, 3.5), layout="constrained", squeeze=False
    )
    robots = sorted({row["robots"] for row in together})
    ways = ("isolated", "together", "shared", "batched")
    for number, way in enumerate(ways):
        heights = [
            next(r["actions_hz"] for r in together if r["robots"] == n and r["way"] == way) for n in robots
        ]
        places = [index + (number - 1.5) * 0.2 for index in range(len(robots))]
        axes[0][0].bar(places, heights, width=0.2, label=way)
    axes[0][0].set_xticks(range(len(robots)), [f"{n} robot{'s' * (n > 1)}" for n in robots])
    axes[0][0].set(title=f"four components, {together[0]['model']}", ylabel="actions/s")
    axes[0][0].legend(fontsize=8)
    for axis, step in zip(axes[0][1:], steps, strict=True):
        of_step = [row for row in sweep if row["S"] == step]
        for way, k in sorted({(row["way"], row["k"] if row["way"] == "batched" else 0) for row in of_step}):
            line = {r["N"]: r["actions_hz"] for r in of_step if r["way"] == way and (not k or r["k"] == k)}
            axis.plot(list(line), list(line.values()), marker="o", label=f"{way}, k={k}" if k else way)
        axis.set(
            title=f"S={step}, {of_step[0]['model']}", xlabel="N, tokens of an answer", ylabel="actions/s"
        )
        axis.set_ylim(bottom=0)
        axis.legend(fontsize=8)
    figure.suptitle(title, fontsize=10)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
