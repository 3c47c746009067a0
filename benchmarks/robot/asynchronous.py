"""Asynchronous against synchronous execution of the shipped policy: seam jerk, task time and success by latency.

    python -m benchmarks.robot.asynchronous [--pieces 20] [--jobs 2]      (about 8 minutes on two cores)

Pick-and-place on the simulated Panda with the robot's own core and chunk player, unseen seeds, the same in every cell.
An answer takes 40 ms and the added latency. Ways to join the next chunk to the one that plays:

synchronous  the arm holds while the next chunk is inferred
switch       the next chunk replaces the present one where its time is, and knows nothing of it
blend        the overlap is blended on the server, as shipped
inpaint      the flow is guided by the overlap (real-time chunking)

Jerk is that of the arm's setpoints from 50 ms before to 250 ms after each seam. Writes
benchmarks/results/asynchronous.json and .png.
"""

from __future__ import annotations

import os

from benchmarks import RESULTS

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import multiprocessing
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.conclude import conclude
from rosa_contract.config.factory import parse_factory
from rosa_contract.config.tasks import ASYNCHRONOUS, SYNCHRONOUS, Task
from rosa_server.models.panda.flow_policy import FlowPolicyBackend
from rosa_sim.cell.render import SceneRenderer
from rosa_sim.cell.world import World
from rosa_sim.closed_loop.asynchronous import BLEND, INPAINT, SWITCH, PhysicsEpisode, Shop, episode
from rosa_sim.closed_loop.cells import DONE
from rosa_sim.closed_loop.table import wilson
from rosa_sim.training.data.pictures import POLICY_CAMERAS

RESULT = RESULTS / "asynchronous"
FIRST_SEED = 4_000_000  # no training, evaluation or demo has seen these cells
BASE_MS = 40.0
ADDED_MS = (0.0, 50.0, 100.0, 200.0)
WAYS = (SYNCHRONOUS, SWITCH, BLEND, INPAINT)
AT_ONCE = 2
TASK = """
server_cluster: {{num_servers: 1}}
robot_fleet: [{{task: pick, num_robots: 1}}]
pick:
  pipeline: {{action_period_ms: 400, execution: {execution}}}
  components: {{system1: {{model: policy, slo_ms: 500}}}}
"""
Row = dict[str, Any]


def task_of(way: str) -> Task:
    execution = SYNCHRONOUS if way == SYNCHRONOUS else ASYNCHRONOUS
    return parse_factory(TASK.format(execution=execution)).tasks["pick"]


def measure(job: tuple[str, float, Sequence[int]]) -> list[PhysicsEpisode]:
    """A few seeds of one cell of the table, in one of several processes."""
    way, added_ms, seeds = job
    policy, renderer, world = equipment()
    shop = Shop(policy, (BASE_MS + added_ms) / 1000, way)
    return [episode(seed, task_of(way), shop, world, renderer) for seed in seeds]


@cache
def equipment() -> tuple[FlowPolicyBackend, SceneRenderer, World]:
    """What every job of a process uses."""
    policy = FlowPolicyBackend(seam=INPAINT)
    policy.load()
    return policy, SceneRenderer(POLICY_CAMERAS), World(FIRST_SEED)


def row_of(way: str, added_ms: float, found: Sequence[PhysicsEpisode]) -> Row:
    """One cell. Task time and rounds are those of the pieces that ended well; jerk is over all seams."""
    good = [one for one in found if one.outcome == DONE]
    low, high = wilson(len(good), len(found))
    took_s = np.array([one.task_s for one in good] or [0.0])
    jerk = np.concatenate([one.jerk() for one in found])
    return {
        "way": way,
        "added_ms": added_ms,
        "pieces": len(found),
        "success": round(len(good) / len(found), 4),
        "success_95": [round(low, 4), round(high, 4)],
        "task_s": round(float(took_s.mean()), 2),
        "task_s_95": round(1.96 * float(took_s.std(ddof=1)) / len(good) ** 0.5 if len(good) > 1 else 0.0, 2),
        "rounds": round(float(np.mean([one.rounds for one in good] or [0])), 1),
        "jerk_rms": round(float(np.sqrt((jerk**2).sum(axis=1).mean())), 1),
        "jerk_peak": round(float(np.mean([np.abs(one.jerk()).max(initial=0.0) for one in found])), 1),
    }


def aims_of(rows: Sequence[Row]) -> list[Row]:
    """Faster than synchronous execution at every latency, at equal success, with the smoothest seam of the three."""
    cell = {(row["way"], row["added_ms"]): row for row in rows}
    times = [[cell[INPAINT, ms]["task_s"], cell[SYNCHRONOUS, ms]["task_s"]] for ms in ADDED_MS]
    jerks = [[cell[way, ms]["jerk_rms"] for way in (INPAINT, BLEND, SWITCH)] for ms in ADDED_MS]
    success = [[cell[INPAINT, ms]["success"], cell[SYNCHRONOUS, ms]["success"]] for ms in ADDED_MS]
    ends = [cell[INPAINT, ms]["success_95"][1] for ms in ADDED_MS]
    return [
        {
            "aim": "a task takes less time than with synchronous execution at every latency (s)",
            "value": times,
            "holds": all(ours < theirs for ours, theirs in times),
        },
        {
            "aim": "inpainting has the least RMS jerk around seams, then blending, then switching (rad/s^3)",
            "value": jerks,
            "holds": all(inpaint < blend < switch for inpaint, blend, switch in jerks),
        },
        {
            "aim": "success is that of synchronous execution, within the interval",
            "value": success,
            "holds": all(end >= theirs for end, (_, theirs) in zip(ends, success, strict=True)),
        },
    ]


def plot(rows: Sequence[Row], path: Path) -> None:
    """Task time, jerk and success against the added latency."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(12, 3.6))
    labels = ("task time (s)", "RMS jerk around seams (rad/s$^3$)", "success, Wilson's 95 % interval")
    for axis, key, label in zip(axes, ("task_s", "jerk_rms", "success"), labels, strict=True):
        for way in WAYS:
            points = [row for row in rows if row["way"] == way]
            x = [row["added_ms"] for row in points]
            y = np.array([row[key] for row in points])
            bars = None
            if key == "success":
                ends = np.array([row["success_95"] for row in points])
                bars = [y - ends[:, 0], ends[:, 1] - y]
            elif key == "task_s":
                bars = [row["task_s_95"] for row in points]
            axis.errorbar(x, y, yerr=bars, marker="o", capsize=2, label=way)
        axis.set_xlabel("added latency (ms)")
        axis.set_ylabel(label)
        axis.grid(alpha=0.3)
    axes[0].legend()
    axes[2].set_ylim(0, 1.05)
    figure.tight_layout()
    figure.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pieces", type=int, default=20, help="seeds per cell of the table")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    arguments = parser.parse_args()
    found: dict[tuple[str, float], list[PhysicsEpisode]] = {
        (way, added_ms): [] for added_ms in ADDED_MS for way in WAYS
    }
    seeds = range(FIRST_SEED, FIRST_SEED + arguments.pieces)
    with multiprocessing.get_context("spawn").Pool(arguments.jobs) as pool:
        # A few seeds of every cell at a time: what is there when a run is interrupted is a whole table.
        for first in range(0, len(seeds), AT_ONCE):
            part = seeds[first : first + AT_ONCE]
            answers = pool.imap(measure, [(*cell, part) for cell in found])
            for cell, answer in zip(found, answers, strict=True):
                found[cell] += answer
            write([row_of(*cell, episodes) for cell, episodes in found.items()])


def write(rows: Sequence[Row]) -> None:
    """Print the table and its aims, and write both with the plot."""
    note = (
        "The shipped flow policy with the robot's own core and chunk player in physics; the same unseen seeds in"
        f" every cell. An answer takes {BASE_MS:g} ms and `added_ms`. `switch`: the next chunk knows nothing of the"
        " one that plays; `blend`: the overlap is blended; `inpaint`: the flow is guided by it. `jerk_rms`"
        " (over the joints) and `jerk_peak` (of one joint, mean of the pieces' largest) of the setpoints from 50 ms"
        " before to 250 ms after each seam, rad/s^3; the setpoint filter bounds every one. `task_s` and `rounds`"
        " are those of the pieces that ended well."
    )
    conclude(RESULT.with_suffix(".json"), rows, aims_of(rows), note)
    plot(rows, RESULT.with_suffix(".png"))


if __name__ == "__main__":
    main()
