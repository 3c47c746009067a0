"""The options of `make demo`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path

from rosa_contract.endpoint import gateways_problem
from rosa_sim.cell.layout.hardware import PICK_PLACE, SORT_PARTS
from rosa_sim.faults.table import CONTROLLER, FAULTS

ROOT = Path(__file__).resolve().parents[2]
DESCRIPTION = (
    "Server, ROS 2 nodes and simulated Panda, a number of episodes, a table, a timeline and a video."
)
UNRECORDED = 4
EPILOG = (
    "Exit status: 0 the run did what it should, 1 it did not, 2 wrong input,"
    f" {UNRECORDED} it did but could not be recorded, 130 Ctrl-C."
)
FIRST_SEED = 900_000  # far from the seeds of the demonstrations
MAX_SEED = 1 << 63
EPISODES, EPISODES_WITH_FAULT = 10, 2
ARMS = ("mujoco", "ros2_control")


@dataclass(frozen=True)
class DemoTask:
    """What is played with `--task`."""

    scene: str
    what: str  # its episodes, in words
    robots: dict[str, Path]  # --arm -> its robot file
    policies: dict[str, Path]  # --policy -> its factory file; the first is the default
    faults: bool  # whether `--fault` knows this cell
    timeout_s: float  # until an episode counts as failed
    result: str  # its name below benchmarks/results


TASKS = {
    PICK_PLACE: DemoTask(
        scene=PICK_PLACE,
        what="pick-and-place episodes",
        robots={
            "mujoco": ROOT / "configs" / "robots" / "panda.yaml",
            "ros2_control": ROOT / "configs" / "robots" / "panda_ros2_control.yaml",
        },
        policies={
            "flow": ROOT / "configs" / "pick_place.yaml",
            "tokens": ROOT / "configs" / "pick_place_tokens.yaml",
            "act": ROOT / "configs" / "pick_place_act.yaml",
        },
        faults=True,
        timeout_s=60.0,
        result="demo",
    ),
    SORT_PARTS: DemoTask(
        scene=SORT_PARTS,
        what="episodes of sorting three blocks by a rule in words",
        robots={"mujoco": ROOT / "configs" / "robots" / "panda_sort_parts.yaml"},
        policies={"vla": ROOT / "configs" / "sort_parts.yaml"},
        faults=False,
        timeout_s=150.0,
        result="demo_sort_parts",
    ),
}


def parse(words: Sequence[str] | None = None) -> argparse.Namespace:
    """The options, each possible by itself; exits with 2 and one line for one that is not."""
    parser = argparse.ArgumentParser(prog="make demo", description=DESCRIPTION, epilog=EPILOG)
    parser.add_argument(
        "--task",
        choices=tuple(TASKS),
        default=PICK_PLACE,
        help="; ".join(f"{name}: {task.what}" for name, task in TASKS.items()),
    )
    parser.add_argument(
        "--episodes", type=int, help=f"how many (default {EPISODES}; {EPISODES_WITH_FAULT} with --fault)"
    )
    parser.add_argument(
        "--fault",
        default="",
        metavar="NAME",
        help="what goes wrong in each episode; `list` prints what there is",
    )
    parser.add_argument(
        "--fault-seconds", type=float, default=0.0, help="for how long (default: see the fault)"
    )
    parser.add_argument("--seed", type=int, default=FIRST_SEED, help="scene of the first episode")
    parser.add_argument(
        "--timeout", type=float, help="seconds until an episode counts as failed (default: see the task)"
    )
    parser.add_argument(
        "--policy",
        choices=tuple(name for task in TASKS.values() for name in task.policies),
        help="which of the shipped models acts (default: the task's first)",
    )
    parser.add_argument("--config", type=Path, help="factory file (default: that of --policy)")
    parser.add_argument(
        "--gateway",
        default="",
        metavar="ENDPOINT",
        help="a server that runs already, with the same factory file, such as tcp://gpu-box:5570; several with commas"
        " between them are tried in turn (default: the demo starts its own)",
    )
    parser.add_argument("--keys", default="", help="with --gateway: key folder of `rosa keys`")
    parser.add_argument(
        "--arm",
        choices=ARMS,
        default="mujoco",
        help="mujoco: the arm node steps the simulation itself; ros2_control: with the driver of a real arm, against"
        " simulated controllers in a separate process",
    )
    parser.add_argument("--robot", type=Path, help="robot file (default: see --arm)")
    parser.add_argument("--namespace", default="panda0", help="namespace and name of the robot")
    parser.add_argument("--out", type=Path, default=ROOT / "runs", help="where the run folder is made")
    parser.add_argument(
        "--operator", action="store_true", help="alerts wait for you instead of the demo's stand-in"
    )
    parser.add_argument("--result", action="store_true", help="also write it to benchmarks/results")
    parser.add_argument("--no-video", action="store_true", help="do not render the video")
    args = parser.parse_args(words)
    task = TASKS[args.task]
    if args.fault in FAULTS and FAULTS[args.fault].place == CONTROLLER:
        args.arm = "ros2_control"  # the only one with controllers
    args.policy = args.policy or next(iter(task.policies))
    for option, chosen, known in (("--arm", args.arm, task.robots), ("--policy", args.policy, task.policies)):
        if chosen not in known:
            parser.error(f"{option}: {args.task} has {', '.join(known)}, got {chosen}")
    if args.fault and args.fault != "list" and not task.faults:
        parser.error(f"--fault: faults can be injected into {PICK_PLACE} only, not into {args.task}")
    if args.gateway and (problem := gateways_problem(args.gateway)):
        parser.error(f"--gateway: {problem}")
    if args.gateway and args.fault and args.fault != "list":
        parser.error(
            "--fault: faults are injected into the demo's own server and link, so not with --gateway"
        )
    if args.keys and not args.gateway:
        parser.error("--keys: the demo's own server has none; they are for the one of --gateway")
    args.robot = args.robot or task.robots[args.arm]
    args.config = args.config or task.policies[args.policy]
    args.timeout = task.timeout_s if args.timeout is None else args.timeout
    if args.episodes is None:
        args.episodes = EPISODES_WITH_FAULT if args.fault else EPISODES
    if args.episodes < 1:
        parser.error(f"--episodes: expected at least 1, got {args.episodes}")
    if not 0 <= args.seed <= MAX_SEED - args.episodes:
        parser.error(f"--seed: expected a whole number from 0 to 2^63 less the episodes, got {args.seed}")
    for name in ("timeout", "fault_seconds"):
        if not 0 <= getattr(args, name) < inf:
            option = f"--{name.replace('_', '-')}"
            parser.error(f"{option}: expected a number of seconds, got {getattr(args, name):g}")
    return args
