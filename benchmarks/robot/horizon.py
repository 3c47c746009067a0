"""Success of the shipped policy against its mean execution horizon: static, and chosen for each chunk (Kairos 3.1).

    python -m benchmarks.robot.horizon [still] [bumped] [--pieces 32] [--jobs 2]   (about 5 minutes each on two cores)

Pick-and-place on the simulated Panda, unseen seeds, the same for every point of a scene: `still`, and `bumped`, where
the cube moves by 6 cm once, while the arm is on its way to it. Static points play a fixed number of steps of each chunk
of 16; dynamic ones the threshold policy with H_min = 2, the smallest static horizon. A round is one inference. A scene
that is not measured keeps its rows. Writes benchmarks/results/horizon.json and .png.
"""

from __future__ import annotations

import os

from benchmarks import RESULTS

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import json
import multiprocessing
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.conclude import conclude
from rosa_contract.wire.horizon import STATIC, THRESHOLD, Horizon
from rosa_server.models.panda.flow_policy import FlowPolicyBackend
from rosa_sim.cell.render import SceneRenderer
from rosa_sim.closed_loop.horizons import HorizonPiece, done, pieces
from rosa_sim.closed_loop.table import wilson
from rosa_sim.training.data.pictures import POLICY_CAMERAS

RESULT = RESULTS / "horizon"
FIRST_SEED = 3_000_000  # no training, evaluation or demo has seen these cells
AT_ONCE = 16
LEAST = 2  # steps: H_min, and the smallest static horizon
STATIC_STEPS = (2, 4, 6, 8, 12, 16)
THRESHOLDS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5)
SPECS = [
    *(Horizon(STATIC, steps=steps) for steps in STATIC_STEPS),
    *(Horizon(THRESHOLD, t=t, min=LEAST) for t in THRESHOLDS),
]
BUMPED_M = {"still": 0.0, "bumped": 0.06}
Row = dict[str, Any]


def measure(job: tuple[Horizon, float, Sequence[int]]) -> list[HorizonPiece]:
    """One point on a few seeds, in a process of its own."""
    spec, bumped_m, seeds = job
    policy, renderer = FlowPolicyBackend(), SceneRenderer(POLICY_CAMERAS)
    policy.load()
    try:
        return pieces(spec, seeds, policy, renderer, bumped_m)
    finally:
        renderer.close()


def row_of(scene: str, spec: Horizon, found: Sequence[HorizonPiece]) -> Row:
    """One point. Rounds and times are those of successful pieces; the mean horizon is over all rounds of these."""
    good = [piece for piece in found if done(piece)]
    steps = [horizon for piece in good for horizon in piece.horizons]
    low, high = wilson(len(good), len(found))
    return {
        "scene": scene,
        "policy": spec.policy,
        "setting": spec.steps if spec.policy == STATIC else spec.t,
        "pieces": len(found),
        "success": round(len(good) / len(found), 4),
        "success_95": [round(low, 4), round(high, 4)],
        "mean_horizon": round(float(np.mean(steps or [0])), 2),
        "inferences": round(float(np.mean([len(piece.horizons) for piece in good] or [0])), 2),
        "task_s": round(float(np.mean([piece.task_s for piece in good] or [0])), 2),
    }


def at_equal_success(rows: Sequence[Row], kind: str, lowest: float) -> Row | None:
    """The point of a policy with the longest mean horizon among those that succeed at least so often."""
    good = [row for row in rows if row["policy"] == kind and row["success"] >= lowest]
    return max(good, key=lambda row: row["mean_horizon"], default=None)


def static_at(rows: Sequence[Row], horizon: float) -> float:
    """The static curve's success at a mean horizon, linear between its points."""
    points = sorted((row["mean_horizon"], row["success"]) for row in rows if row["policy"] == STATIC)
    horizons, successes = zip(*points, strict=True)
    return float(np.interp(horizon, horizons, successes))


def aims_of(scene: str, rows: Sequence[Row]) -> list[Row]:
    """Kairos's claim, the dynamic curve lies above the static one; and fewer inferences at equal success."""
    dynamic = [row for row in rows if row["policy"] == THRESHOLD]
    gains = [row["success"] - static_at(rows, row["mean_horizon"]) for row in dynamic]
    above = {f"{row['setting']:g}": round(gain, 3) for row, gain in zip(dynamic, gains, strict=True)}
    lowest = max(row["success"] for row in rows) - 0.02
    fixed, free = (at_equal_success(rows, kind, lowest) for kind in (STATIC, THRESHOLD))
    longer = fewer = False
    if free is not None and fixed is not None:
        longer = free["mean_horizon"] > fixed["mean_horizon"]
        fewer = free["inferences"] < fixed["inferences"]
    return [
        {
            "aim": f"{scene} scene: every threshold succeeds more often than static at its mean horizon (gain by t)",
            "value": above,
            "holds": all(gain > 0 for gain in gains),
        },
        {
            "aim": f"{scene} scene: within 2 points of the best success the longest horizon is dynamic (it, static)",
            "value": [row["mean_horizon"] if row else 0 for row in (free, fixed)],
            "holds": longer,
        },
        {
            "aim": f"{scene} scene: and it needs the fewest inferences per task (dynamic, static)",
            "value": [row["inferences"] if row else 0 for row in (free, fixed)],
            "holds": fewer,
        },
    ]


def plot(rows: Sequence[Row], path: Path) -> None:
    """Success with its interval against the mean horizon, by scene; each point with its steps, or its t."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    scenes = list(dict.fromkeys(row["scene"] for row in rows))
    figure, axes = plt.subplots(1, len(scenes), figsize=(5 * len(scenes), 3.8), sharey=True, squeeze=False)
    for axis, scene in zip(axes[0], scenes, strict=True):
        for kind, colour in ((STATIC, "tab:gray"), (THRESHOLD, "tab:blue")):
            here = [row for row in rows if (row["scene"], row["policy"]) == (scene, kind)]
            points = sorted(
                ((row["mean_horizon"], row) for row in here if row["success"]), key=lambda one: one[0]
            )
            y = np.array([row["success"] for _, row in points])
            ends = np.array([row["success_95"] for _, row in points])
            name = "static (steps)" if kind == STATIC else f"threshold (t), H_min = {LEAST}"
            bars = [y - ends[:, 0], ends[:, 1] - y]
            axis.errorbar(
                [at for at, _ in points], y, yerr=bars, color=colour, marker="o", capsize=2, label=name
            )
            for at, row in points:
                place = (at, row["success"])
                axis.annotate(f"{row['setting']:g}", place, (2, 4), textcoords="offset points", fontsize=7)
        axis.set_title(scene)
        axis.set_xlabel("mean execution horizon (steps of 50 ms)")
        axis.grid(alpha=0.3)
    axes[0][0].set_ylabel("success, Wilson's 95 % interval")
    axes[0][0].legend(loc="lower left")
    figure.tight_layout()
    figure.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scenes", nargs="*", help=f"which scenes (default all): {', '.join(BUMPED_M)}")
    parser.add_argument("--pieces", type=int, default=32, help="seeds per point")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    arguments = parser.parse_args()
    scenes = arguments.scenes or list(BUMPED_M)
    if unknown := set(scenes) - set(BUMPED_M):
        parser.error(f"no scene {', '.join(sorted(unknown))}; there are {', '.join(BUMPED_M)}")
    seeds = range(FIRST_SEED, FIRST_SEED + arguments.pieces)
    path = RESULT.with_suffix(".json")
    before: list[Row] = json.loads(path.read_text())["rows"] if path.exists() else []
    with multiprocessing.get_context("spawn").Pool(arguments.jobs) as pool:
        for scene in scenes:
            found: list[list[HorizonPiece]] = [[] for _ in SPECS]
            # Some seeds of every point at a time: what is there when a run is interrupted is a whole curve.
            for first in range(0, len(seeds), AT_ONCE):
                part = seeds[first : first + AT_ONCE]
                jobs = [(spec, BUMPED_M[scene], part) for spec in SPECS]
                for all_of_it, more in zip(found, pool.imap(measure, jobs), strict=True):
                    all_of_it += more
                rows = [row_of(scene, spec, one) for spec, one in zip(SPECS, found, strict=True)]
                before = [row for row in before if row["scene"] != scene] + rows
                write(sorted(before, key=lambda row: list(BUMPED_M).index(row["scene"])), path)


def write(rows: Sequence[Row], path: Path) -> None:
    """Print the table and its aims, and write both with the plot."""
    aims = [
        aim
        for scene in dict.fromkeys(row["scene"] for row in rows)
        for aim in aims_of(scene, [row for row in rows if row["scene"] == scene])
    ]
    note = (
        "The shipped flow policy picks and places on the simulated Panda; the same unseen seeds at every point."
        " Each round: look, hold for 100 ms of inference, play the horizon. In the bumped scene the cube moves by"
        " 6 cm once, while the arm is on its way to it. `setting`: the static policy's steps, or t of the threshold"
        f" policy (Kairos 3.1, H_min = {LEAST}). Wilson's 95 % interval of success; `mean_horizon`, `inferences`"
        " and `task_s` are those of the pieces that ended well."
    )
    conclude(path, rows, aims, note)
    plot(rows, path.with_suffix(".png"))


if __name__ == "__main__":
    main()
