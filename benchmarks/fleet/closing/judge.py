"""What closed_loop.py aims at, and its picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.fleet.closing.fleets import (
    FAULTED,
    FAULTS,
    HORIZONS_MS,
    PERSON_S,
    SETTLE_MS,
    SIZES,
    WARM_UP_S,
    best_baseline,
)
from rosa_sim.closed_loop.cells import GIVEN_UP_S
from rosa_sim.closed_loop.fleet import NEXT_PIECE_S
from rosa_sim.closed_loop.table import Table
from rosa_sim.fleet.systems import PUBLISHED, READINGS, ROSA, SYSTEMS

Row = dict[str, Any]
NOISE = 0.03
PARTS = (
    ("robots", "any number of robots"),
    ("settle", "robots that settle before they look"),
    ("faults", "every fault"),
    ("people", "people who are called"),
)


def aims_of(executed: Sequence[Row], compared: Sequence[Row]) -> list[Row]:
    """The aims, with what was reached."""
    aims = []
    for part, words in PARTS:
        for other in ("best baseline", PUBLISHED):
            gains = _gains(executed, part, other)
            if gains:
                name = other if other != PUBLISHED else "ROSA as published"
                value = ", ".join(
                    f"{words}: {'never' if not gain else f'{gain:.2f}x'}" for words, gain in _ends(gains)
                )
                aims.append(
                    {
                        "aim": f"{words}: ROSA finishes at least as many tasks as {name}, less {NOISE:.0%}",
                        "value": value,
                        "holds": min(gains.values()) >= 1 - NOISE,
                    }
                )
    for key, words in (
        ("seconds_per_piece", "seconds per task"),
        ("per_robot_hour", "tasks per robot and hour"),
    ):
        if compared:
            agree = [row for row in compared if row[f"{key}_agrees"]]
            differences = ", ".join(row[f"{key}_difference"] for row in compared)
            aims.append(
                {
                    "aim": f"drawn and physical fleets differ by no more than the 95 % interval: {words}",
                    "value": f"{len(agree)} of {len(compared)}: {differences}",
                    "holds": len(agree) == len(compared),
                }
            )
    return aims


def _gains(executed: Sequence[Row], part: str, other: str) -> dict[str, float]:
    gains = {}
    for row in executed:
        if row["part"] == part and row["system"] == ROSA:
            same = [
                one
                for one in executed
                if one["system"] in READINGS and all(one[k] == row[k] for k in ("part", "what", "robots"))
            ]
            published = max(same, key=lambda one: float(one["per_hour"]), default=None)
            rival = best_baseline(list(executed), row) if other != PUBLISHED else published
            if rival is not None and rival["per_hour"] > 0:
                label = row["what"] if part == "faults" else f"{row['robots']} robots"
                gains[label] = row["per_hour"] / rival["per_hour"]
    return gains


def _ends(gains: dict[str, float]) -> list[tuple[str, float]]:
    lowest, highest = min(gains, key=lambda k: gains[k]), max(gains, key=lambda k: gains[k])
    return [(f"least, {lowest}", gains[lowest]), (f"most, {highest}", gains[highest])]


def notes_of(table: Table) -> list[str]:
    """How it was measured."""
    return [
        "P4 on 8 emulated H200 (**derived profiles**). Every robot works on pieces of the simulated cell with the"
        f" shipped policy; {table.pieces} pieces per horizon and latency were measured in physics (closed_loop_trials)"
        " and are drawn from. A task is finished when the monitor says done, which it learns from the truth at the"
        f" moment of its observation, every 2 s. The next piece comes {NEXT_PIECE_S:g} s later; one that takes"
        f" {GIVEN_UP_S:g} s of motion is given up. Counted after {WARM_UP_S:g} s.",
        "`robots`: 200 ms of each chunk are executed, violations in a row reach no limit. `faults`:"
        f" {FAULTED} robots. `horizon`: more or less of each chunk. `settle`: the arm settles for"
        f" {SETTLE_MS:g} ms before each look. `people`: violations in a row call a person,"
        f" who comes after {PERSON_S:g} s. `agreement`: the same fleet with MuJoCo and the policy in"
        " the loop, on other cells.",
    ]


def plot(executed: Sequence[Row], path: Path) -> None:
    """Tasks per hour by robots, under faults, by horizon, and with people."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 3, figsize=(14, 4.2), width_ratios=(1, 1.35, 0.8))
    labels = {
        ROSA: "ROSA",
        **dict(zip(READINGS, ("ROSA as published", "as published, catching up"), strict=True)),
    }
    for system in SYSTEMS:
        same = [row for row in executed if (row["part"], row["system"]) == ("robots", system)]
        values = [row["per_hour"] for row in same]
        bars = [row["per_hour_95"] or 0.0 for row in same]
        label = labels.get(system, system.replace("_", " "))
        axes[0].errorbar(SIZES, values, bars, marker="o", markersize=3, linewidth=1.2, capsize=2, label=label)
    settled = [row for row in executed if (row["part"], row["system"]) == ("settle", ROSA)]
    label = f"ROSA, settles {SETTLE_MS:g} ms"
    axes[0].plot(SIZES, [row["per_hour"] for row in settled], "C0--", linewidth=1.2, label=label)
    axes[0].set(xlabel="robots on 8 servers", ylabel="tasks finished per hour", ylim=(0, None))
    axes[0].legend(fontsize=7)
    for number, system in enumerate(SYSTEMS):
        worth = {
            row["what"]: row["per_hour"]
            for row in executed
            if (row["part"], row["system"]) == ("faults", system)
        }
        axes[1].barh([i + 0.12 * number for i in range(len(FAULTS))], [worth[f] for f in FAULTS], height=0.11)
    axes[1].set_yticks([i + 0.35 for i in range(len(FAULTS))], list(FAULTS), fontsize=7)
    axes[1].invert_yaxis()
    axes[1].set_xlabel(f"tasks finished per hour, {FAULTED} robots")
    for system in (ROSA, PUBLISHED, "equal_partition"):
        points = {200.0: _at(executed, system)}
        points |= {
            float(row["what"].split()[0]): row["per_hour"]
            for row in executed
            if (row["part"], row["system"]) == ("horizon", system)
        }
        color = f"C{SYSTEMS.index(system)}"
        axes[2].plot(HORIZONS_MS, [points[ms] for ms in HORIZONS_MS], "o-", color=color, markersize=3)
    axes[2].set(xlabel="executed of each chunk, ms; 64 robots", xscale="log", ylim=(0, None))
    axes[2].set_xticks(HORIZONS_MS, [f"{ms:g}" for ms in HORIZONS_MS])
    axes[2].minorticks_off()
    figure.tight_layout()
    figure.savefig(path, dpi=130)


def _at(executed: Sequence[Row], system: str) -> float:
    return next(
        float(row["per_hour"])
        for row in executed
        if (row["part"], row["system"], row["robots"]) == ("robots", system, 64)
    )
