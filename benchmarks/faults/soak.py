"""A fleet of virtual robots that come, leave and crash, for hours: descriptors, memory and latency stay flat.

make soak HOURS=1        (or: python -m benchmarks.faults.soak [--hours 1] [--seed 1])
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import os
import platform
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib as mpl

from benchmarks import RESULTS
from rosa_sim.hostile.soak import GROUPS, ROBOTS, Soak, SoakSample, flatness, soak

mpl.use("Agg")
import matplotlib.pyplot as plt

MORE_DESCRIPTORS = 20  # workers come and go
MORE_MEMORY = 1.10
MORE_LATENCY = 1.5
MIN_IN_TIME = 0.97
CURVES = (
    ("descriptors", "open descriptors"),
    ("resident_mb", "resident memory (MB)"),
    ("p50_ms", "p50 (ms)"),
    ("p99_ms", "p99 (ms)"),
    ("load", "load average"),
)


def aims_of(result: Soak) -> list[dict[str, Any]]:
    """Each promise, its figures of the second and the last quarter, and whether it holds."""
    ended = result.server_ended or result.tracebacks > 0
    words = "the server runs to the end without a traceback"
    aims: list[dict[str, Any]] = [{"aim": words, "value": "no" if ended else "yes", "holds": not ended}]
    calls, missed = (sum(getattr(one, name) for one in result.samples) for name in ("calls", "missed"))
    in_time = 1 - missed / max(1, calls)
    words = f"{MIN_IN_TIME:.0%} of the calls end in time, killed workers and all"
    aims.append({"aim": words, "value": f"{in_time:.2%}", "holds": calls > 0 and in_time >= MIN_IN_TIME})
    limits: tuple[tuple[str, str, Callable[[float], float]], ...] = (
        (
            "descriptors",
            f"descriptors grow by at most {MORE_DESCRIPTORS}",
            lambda was: was + MORE_DESCRIPTORS,
        ),
        ("resident_mb", "memory (MB) grows by at most a tenth", lambda was: was * MORE_MEMORY),
        ("p50_ms", "p50 of the calls (ms) grows by at most a half", lambda was: was * MORE_LATENCY),
    )
    for name, words, limit in limits:
        before, after = flatness(result.samples, name)
        aims.append({"aim": words, "value": f"{before:.1f} to {after:.1f}", "holds": after <= limit(before)})
    return aims


def report(result: Soak, hours: float, seed: int) -> dict[str, Any]:
    calls, missed = (sum(getattr(one, name) for one in result.samples) for name in ("calls", "missed"))
    before, after = flatness(result.samples, "load")
    command = f"make soak HOURS={hours:g}" + (f" ARGS='--seed {seed}'" if seed != 1 else "")
    return {
        "name": "soak",
        "command": command,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "date": datetime.date.today().isoformat(),
        "aims": aims_of(result),
        "notes": [
            "Medians of the second and of the last quarter of the time, after the first has warmed up.",
            f"The machine's load average, other work on it included, was {before:.0f} and then {after:.0f}.",
        ],
        "rows": [
            {
                "hours": hours,
                "robots at most": GROUPS * ROBOTS,
                "groups joined": result.joined,
                "left": result.left,
                "crashed": result.crashed,
                "workers killed": result.workers_killed,
                "calls": calls,
                "missed": missed,
            }
        ],
        "samples": {
            field.name: [getattr(one, field.name) for one in result.samples]
            for field in dataclasses.fields(SoakSample)
        },
    }


def draw(samples: list[SoakSample], path: Path) -> None:
    figure, axes = plt.subplots(len(CURVES), 1, figsize=(8, 8), sharex=True, layout="constrained")
    minutes = [one.at_s / 60 for one in samples]
    for axis, (name, label) in zip(axes, CURVES, strict=True):
        axis.plot(minutes, [getattr(one, name) for one in samples], linewidth=1)
        axis.set_ylabel(label)
        axis.set_ylim(bottom=0)
    axes[-1].set_xlabel("minutes")
    figure.savefig(path, dpi=100)
    plt.close(figure)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rosa-soak-") as folder:
        result = soak(Path(folder), arguments.hours * 3600, arguments.seed, partial(print, flush=True))
    written = report(result, arguments.hours, arguments.seed)
    (RESULTS / "soak.json").write_text(json.dumps(written, indent=2) + "\n")
    draw(result.samples, RESULTS / "soak.png")
    for aim in written["aims"]:
        print(f"{'holds ' if aim['holds'] else 'MISSED'}  {aim['aim']}: {aim['value']}")
    return 0 if all(aim["holds"] for aim in written["aims"]) else 1


if __name__ == "__main__":
    sys.exit(main())
