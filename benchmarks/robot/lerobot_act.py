"""An ACT policy of LeRobot: how many tasks it finishes in LeRobot's own loop, and how many through ROSA.

    python -m benchmarks.robot.lerobot_act [--episodes 24] [--way lerobot|nodes]

The same checkpoint in the same cells. In LeRobot's loop: its processors and its `select_action`, in one process with
the simulated cell. Through ROSA: a worker in LeRobot's environment, gateway, ROS 2 nodes and the simulated
Panda, as `make demo POLICY=act` runs it. `make train-act` makes the checkpoint.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import yaml

from benchmarks import RESULTS, ROOT
from benchmarks.conclude import print_aims, write
from rosa_sim.closed_loop.table import wilson

FACTORY = ROOT / "configs" / "pick_place_act.yaml"
LEROBOT, NODES = "LeRobot's own loop", "ROSA's worker and ROS 2 nodes"
WAYS = {"lerobot": LEROBOT, "nodes": NODES}
FIRST_SEED = 900_000
EPISODE_S = 180.0  # that one may take, on a busy machine
START_S = 300.0
TIMEOUT_S = (
    45.0  # of an episode through the nodes: some 60 rounds on a busy machine, as many as LeRobot's loop gets
)
Row = dict[str, Any]
Trial = dict[str, Any]  # seed, outcome, rounds


def in_lerobots_loop(python: str, policy: Path, seeds: range) -> list[Trial]:
    """Every seed, with LeRobot's Python."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "trials.json"
        command = [python, "-m", "rosa_sim.training.act", "play", "--policy", str(policy), "--out", str(out)]
        command += ["--episodes", str(len(seeds)), "--seed", str(seeds[0])]
        own = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        limit_s = START_S + EPISODE_S * len(seeds)
        subprocess.run(command, cwd=ROOT, env={**own, "PYTHONPATH": str(ROOT)}, check=True, timeout=limit_s)
        trials: list[Trial] = json.loads(out.read_text())
    return trials


def through_the_nodes(python: str, policy: Path, seeds: range) -> list[Trial]:
    """Every seed, as the demo plays it. Done is what the robot concluded and the cell confirms."""
    document = yaml.safe_load(FACTORY.read_text())
    model = document["models"]["lab/act"]
    model["python"], model["options"]["model"] = python, str(policy)
    model["adapter"]["robot"] = str(FACTORY.parent / model["adapter"]["robot"])
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "factory.yaml").write_text(yaml.safe_dump(document, sort_keys=False))
        command = [
            sys.executable,
            "-m",
            "rosa_sim.demo",
            "--config",
            str(folder / "factory.yaml"),
            "--no-video",
        ]
        command += ["--episodes", str(len(seeds)), "--seed", str(seeds[0]), "--out", str(folder / "runs")]
        command += ["--timeout", str(TIMEOUT_S)]
        subprocess.run(command, cwd=ROOT, check=False, timeout=START_S + EPISODE_S * len(seeds))
        [summary] = (folder / "runs").glob("*/summary.json")
        episodes = json.loads(summary.read_text())["rows"]
    return [
        {
            "seed": one["seed"],
            "outcome": "done" if one["success"] else f"{one['outcome']}, the cell: {one['truth']}",
            "rounds": one["rounds"],
            "retries": one["retries"],
            "deadlines_missed": one["deadlines_missed"],
            "system1_p50_ms": sorted(one["system1_ms"])[len(one["system1_ms"]) // 2]
            if one["system1_ms"]
            else None,
        }
        for one in episodes
    ]


def row_of(way: str, trials: list[Trial]) -> Row:
    """Success with Wilson's 95 % interval, and every episode."""
    done = [one for one in trials if one["outcome"] == "done"]
    low, high = wilson(len(done), len(trials))
    rounds = sorted(one["rounds"] for one in done)
    return {
        "way": way,
        "episodes": len(trials),
        "done": len(done),
        "success": round(len(done) / len(trials), 3),
        "success_95": [round(low, 3), round(high, 3)],
        "rounds_p50": rounds[len(rounds) // 2] if rounds else None,
        "outcomes": dict(Counter(one["outcome"] for one in trials)),
        "trials": trials,
    }


def aims_of(rows: list[Row]) -> list[Row]:
    """Tasks are finished both ways, as often as each other within the interval."""
    at = {row["way"]: row for row in rows}
    if at.keys() != set(WAYS.values()):
        return []
    low, high = at[LEROBOT]["success_95"]
    shares = [at[LEROBOT]["success"], at[NODES]["success"]]
    done = at[NODES]["done"]
    return [
        {"aim": "tasks are finished through the ROS 2 nodes", "value": done, "holds": done > 0},
        {
            "aim": "success through the ROS 2 nodes is that in LeRobot's own loop, within its 95 % interval (Wilson)",
            "value": shares,
            "holds": low <= shares[1] <= high,
        },
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--episodes", type=int, default=24, help="each way (default: %(default)s)")
    parser.add_argument("--way", choices=tuple(WAYS), help="only this one; the other's row is kept")
    parser.add_argument("--policy", type=Path, default=ROOT / ".cache" / "act" / "policy", help="checkpoint")
    parser.add_argument(
        "--python",
        default=os.environ.get("LEROBOT_PYTHON", str(ROOT / ".venv-lerobot" / "bin" / "python")),
        help="of LeRobot's environment (default: $LEROBOT_PYTHON, or .venv-lerobot)",
    )
    parser.add_argument("--seed", type=int, default=FIRST_SEED, help="first cell")
    told = parser.parse_args()
    path, seeds = RESULTS / "lerobot_act.json", range(told.seed, told.seed + told.episodes)
    before = json.loads(path.read_text())["rows"] if told.way and path.is_file() else []
    rows = {row["way"]: row for row in before}
    for name, play in (("lerobot", in_lerobots_loop), ("nodes", through_the_nodes)):
        if told.way in (None, name):
            rows[WAYS[name]] = row_of(WAYS[name], play(told.python, told.policy.absolute(), seeds))
    ordered = [rows[way] for way in WAYS.values() if way in rows]
    for row in ordered:
        low, high = row["success_95"]
        print(f"{row['way']:32} {row['done']} of {row['episodes']} done ({low:.0%} to {high:.0%})")
    aims = aims_of(ordered)
    print_aims(aims)
    training = told.policy / "training.json"
    notes = [training.read_text().strip()] if training.is_file() else []
    write(path, ordered, aims, notes, options=f"--episodes {told.episodes}", how="")
    return 0 if all(aim["holds"] for aim in aims) else 1


if __name__ == "__main__":
    raise SystemExit(main())
