"""Success of the shipped policy against its mean execution horizon: static, and chosen for each chunk (Kairos 3.1).

    python benchmarks/horizon.py [--pieces 32] [--jobs 2]      (about 5 minutes on two cores)

Pick-and-place on the simulated Panda, unseen seeds, the same for every point. Static points play a fixed number of
steps of each chunk of 16; dynamic ones the threshold policy with H_min = 2, the smallest static horizon. A round is one
inference. Writes benchmarks/results/horizon.json and .png.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import json
import multiprocessing
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from rosa_contract.horizon import STATIC, THRESHOLD, Horizon
from rosa_server.models.flow_policy import FlowPolicyBackend
from rosa_sim.cell.render import SceneRenderer
from rosa_sim.closed_loop.horizons import Piece, done, pieces
from rosa_sim.closed_loop.table import wilson
from rosa_sim.training.collect import POLICY_CAMERAS

RESULT = Path(__file__).resolve().parent / "results" / "horizon"
FIRST_SEED = 3_000_000  # no training, evaluation or demo has seen these cells
AT_ONCE = 16
LEAST = 2  # steps: H_min, and the smallest static horizon
STATIC_STEPS = (2, 4, 6, 8, 12, 16)
THRESHOLDS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5)
SPECS = [
    *(Horizon(STATIC, steps=steps) for steps in STATIC_STEPS),
    *(Horizon(THRESHOLD, t=t, min=LEAST) for t in THRESHOLDS),
]
Row = dict[str, Any]


def measure(job: tuple[Horizon, Sequence[int]]) -> list[Piece]:
    """One point on a few seeds, in a process of its own."""
    spec, seeds = job
    policy, renderer = FlowPolicyBackend(), SceneRenderer(POLICY_CAMERAS)
    policy.load()
    try:
        return pieces(spec, seeds, policy, renderer)
    finally:
        renderer.close()


def row_of(spec: Horizon, found: Sequence[Piece]) -> Row:
    """One point. Rounds and times are those of successful pieces; the mean horizon is over all rounds of these."""
    good = [piece for piece in found if done(piece)]
    steps = [horizon for piece in good for horizon in piece.horizons]
    low, high = wilson(len(good), len(found))
    return {
        "policy": spec.policy,
        "setting": spec.steps if spec.policy == STATIC else spec.t,
        "pieces": len(found),
        "success": round(len(good) / len(found), 4),
        "success_95": [round(low, 4), round(high, 4)],
        "mean_horizon": round(float(np.mean(steps or [0])), 2),
        "inferences": round(float(np.mean([len(piece.horizons) for piece in good] or [0])), 2),
        "task_s": round(float(np.mean([piece.task_s for piece in good] or [0])), 2),
    }


def at_equal_success(rows: Sequence[Row], kind: str, least: float) -> Row | None:
    """The point of a policy with the longest mean horizon among those that succeed at least so often."""
    good = [row for row in rows if row["policy"] == kind and row["success"] >= least]
    return max(good, key=lambda row: row["mean_horizon"], default=None)


def static_at(rows: Sequence[Row], horizon: float) -> float:
    """The static curve's success at a mean horizon, linear between its points."""
    points = sorted((row["mean_horizon"], row["success"]) for row in rows if row["policy"] == STATIC)
    return float(np.interp(horizon, *zip(*points, strict=True)))


def aims_of(rows: Sequence[Row]) -> list[Row]:
    """Kairos's claim, the dynamic curve lies above the static one; and fewer inferences at equal success."""
    dynamic = [row for row in rows if row["policy"] == THRESHOLD]
    gains = [row["success"] - static_at(rows, row["mean_horizon"]) for row in dynamic]
    above = {row["setting"]: round(gain, 3) for row, gain in zip(dynamic, gains, strict=True)}
    best = max(row["success"] for row in rows)
    within = best - 0.02
    fixed, free = (at_equal_success(rows, kind, within) for kind in (STATIC, THRESHOLD))
    shown = "none" if free is None or fixed is None else [free["mean_horizon"], fixed["mean_horizon"]]
    fewer = "none" if free is None or fixed is None else [free["inferences"], fixed["inferences"]]
    longer = free is not None and fixed is not None and free["mean_horizon"] > fixed["mean_horizon"]
    spared = free is not None and fixed is not None and free["inferences"] < fixed["inferences"]
    return [
        {
            "aim": "at every threshold the success is above the static curve's at the same mean horizon (t -> gain)",
            "value": above,
            "holds": all(gain > 0 for gain in gains),
        },
        {
            "aim": "within 2 points of the best success the dynamic horizon is longer than the best static one (steps)",
            "value": shown,
            "holds": longer,
        },
        {
            "aim": "and needs fewer inferences per task (dynamic, static)",
            "value": fewer,
            "holds": spared,
        },
    ]


def plot(rows: Sequence[Row], path: Path) -> None:
    """Success with its interval against the mean horizon, and against inferences per task."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 3.8), sharey=True)
    for axis, key, label in zip(
        axes,
        ("mean_horizon", "inferences"),
        ("mean execution horizon (steps of 50 ms)", "inferences per finished task"),
        strict=True,
    ):
        for kind, colour in ((STATIC, "tab:gray"), (THRESHOLD, "tab:blue")):
            points = sorted((row[key], row) for row in rows if row["policy"] == kind and row["success"])
            x = [at for at, _ in points]
            y = np.array([row["success"] for _, row in points])
            ends = np.array([row["success_95"] for _, row in points])
            name = "static" if kind == STATIC else f"threshold, H_min = {LEAST}"
            axis.errorbar(
                x, y, yerr=[y - ends[:, 0], ends[:, 1] - y], color=colour, marker="o", capsize=2, label=name
            )
            for at, row in points:
                text = f"{row['setting']:g}"
                axis.annotate(text, (at, row["success"]), (2, 4), textcoords="offset points", fontsize=7)
        axis.set_xlabel(label)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("success, Wilson's 95 % interval")
    axes[0].legend(loc="lower left")
    figure.tight_layout()
    figure.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pieces", type=int, default=32, help="seeds per point")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    arguments = parser.parse_args()
    seeds = range(FIRST_SEED, FIRST_SEED + arguments.pieces)
    parts = [seeds[first : first + AT_ONCE] for first in range(0, len(seeds), AT_ONCE)]
    rows = []
    with multiprocessing.get_context("spawn").Pool(arguments.jobs) as pool:
        jobs = [(spec, part) for spec in SPECS for part in parts]
        answers = pool.imap(measure, jobs)
        for spec in SPECS:
            rows.append(row_of(spec, [piece for _ in parts for piece in next(answers)]))
            print(json.dumps(rows[-1]), flush=True)
    aims = aims_of(rows)
    for aim in aims:
        print(f"{'holds' if aim['holds'] else 'DOES NOT HOLD'}: {aim['aim']}: {aim['value']}")
    result = {
        "name": "horizon",
        "command": "python benchmarks/horizon.py",
        "machine": f"{platform.machine()}, {os.cpu_count()} shared cores; times are simulated",
        "date": datetime.now(UTC).date().isoformat(),
        "aims": aims,
        "notes": [
            "The shipped flow policy picks and places on the simulated Panda; the same unseen seeds at every point."
            " Each round: look, hold for 100 ms of inference, play the horizon. `setting`: the static policy's"
            f" steps, or t of the threshold policy (Kairos 3.1, H_min = {LEAST}). Wilson's 95 % interval of success;"
            " `mean_horizon`, `inferences` and `task_s` are those of the pieces that ended well."
        ],
        "rows": rows,
    }
    RESULT.with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    plot(rows, RESULT.with_suffix(".png"))


if __name__ == "__main__":
    main()
