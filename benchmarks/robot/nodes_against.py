"""What the robot's nodes cost in this tree and in another commit's: `robot_side` of both, in turns.

    python -m benchmarks.robot.nodes_against [2260fb9] [--turns 8] [--seconds 10]

CPU of runtime and arm node, and the control loop's jitter, with replayed sensors and in simulation. Each tree runs from
its own files in this environment, each first in every other turn. `results/robot_side.json` is written on the way.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import RESULTS, ROOT, command_of
from benchmarks.transport.transport import machine
from benchmarks.trees import tree_of

PLACES = ("benchmarks/robot/robot_side.py", "benchmarks/robot_side.py")  # in one tree or another
DRIVERS = {"replay": "replayed sensors", "sim": "simulation"}
MAX_RISE = 1.1
PATIENCE_S = 120.0  # beyond the time that is measured


def measured(tree: Path, seconds: float) -> dict[str, dict[str, float]]:
    """Driver -> its row of one run."""
    place = next((place for place in PLACES if (tree / place).is_file()), None)
    if place is None:
        raise SystemExit(f"{tree}: expected one of {', '.join(PLACES)}")
    (tree / "benchmarks" / "__init__.py").touch()  # else another tree's package of this name comes first
    module = place.removesuffix(".py").replace("/", ".")
    done = subprocess.run(
        [sys.executable, "-m", module, "--seconds", f"{seconds:g}"],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
        timeout=2 * seconds + PATIENCE_S,
    )
    if done.returncode:
        raise SystemExit(f"{tree}: {module} ended with status {done.returncode}: {done.stderr[-500:]}")
    rows = json.loads((tree / "benchmarks" / "results" / "robot_side.json").read_text())["rows"]
    return {row["driver"]: row for row in rows}


def summarise(runs: dict[str, list[dict[str, dict[str, float]]]]) -> list[dict[str, Any]]:
    """One row per tree and driver: means over the turns of CPU in % of a core and of jitter in ms, with its standard
    error. A turn's p99 is either tiny or tenths of a ms, depending on how the periods of loop and timers lie to each
    other while it lasts, so a median of a few turns would say which of the two came once more often.
    """
    rows = []
    for tree, turns in runs.items():
        for driver in DRIVERS:
            here = [turn[driver] for turn in turns]
            row: dict[str, Any] = {"tree": tree, "driver": driver}
            for node in ("runtime_node", "arm_node"):
                row[f"{node}_percent"] = round(statistics.mean(one[f"{node}_cpu_percent"] for one in here), 2)
            jitter_ms = [one["jitter_p99_ms"] for one in here]
            error_ms = statistics.stdev(jitter_ms) / len(jitter_ms) ** 0.5 if len(jitter_ms) > 1 else 0.0
            row["jitter_p99_ms"] = round(statistics.mean(jitter_ms), 3)
            row["jitter_p99_error_ms"] = round(error_ms, 3)
            row["jitter_p99_ms_per_turn"] = jitter_ms
            row["other_load_percent"] = round(statistics.mean(one["other_load_percent"] for one in here), 1)
            rows.append(row)
    return rows


def judge(rows: list[dict[str, Any]], commit: str) -> list[dict[str, Any]]:
    """Nothing rises by more than a tenth."""
    at = {(row["tree"], row["driver"]): row for row in rows}
    aims = []
    for driver, words in DRIVERS.items():
        ours, theirs = at["this tree", driver], at[commit, driver]
        for node in ("runtime_node", "arm_node"):
            ratio = ours[f"{node}_percent"] / theirs[f"{node}_percent"]
            text = f"{node.replace('_', ' ')}, {words}: CPU of this tree / {commit} at most {MAX_RISE:g}"
            aims.append({"aim": text, "value": round(ratio, 3), "holds": ratio <= MAX_RISE})
        value, before = ours["jitter_p99_ms"], theirs["jitter_p99_ms"]
        text = f"jitter, {words}: p99 at most {MAX_RISE:g} times that of {commit} ({before:g} ms)"
        aims.append({"aim": text, "value": value, "holds": value <= MAX_RISE * before})
    return aims


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commit", nargs="?", default="2260fb9", help="default: %(default)s")
    parser.add_argument("--turns", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each driver in each turn")
    arguments = parser.parse_args()
    where = machine()
    with ExitStack() as stack:
        trees = {"this tree": ROOT, arguments.commit: tree_of(arguments.commit, stack)}
        runs: dict[str, list[dict[str, dict[str, float]]]] = {name: [] for name in trees}
        for turn in range(arguments.turns):
            for name in list(trees) if turn % 2 else reversed(trees):
                print(f"turn {turn + 1} of {arguments.turns}: {name} ...", flush=True)
                runs[name].append(measured(trees[name], arguments.seconds))
    rows = summarise(runs)
    for row in rows:
        print(
            f"{row['tree']:10} {row['driver']:7} runtime node {row['runtime_node_percent']:5.1f} %  arm node "
            f"{row['arm_node_percent']:5.1f} %  jitter p99 {row['jitter_p99_ms']:.3f} +- "
            f"{row['jitter_p99_error_ms']:.3f} ms  others "
            f"{row['other_load_percent']:.0f} %"
        )
    aims = judge(rows, arguments.commit)
    for aim in aims:
        print(f"{'holds ' if aim['holds'] else 'MISSED'} {aim['aim']}: {aim['value']}")
    result = {
        "name": "nodes_against",
        "command": " ".join([command_of("nodes_against"), *sys.argv[1:]]),
        "machine": where,
        "date": datetime.now(UTC).date().isoformat(),
        "rows": rows,
        "aims": aims,
    }
    (RESULTS / "nodes_against.json").write_text(json.dumps(result, indent=2) + "\n")
    print(f"written: {RESULTS / 'nodes_against.json'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
