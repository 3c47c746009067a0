"""The options of `make demo`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from math import inf
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DESCRIPTION = (
    "Server, ROS 2 nodes and simulated Panda, a number of pick-and-place episodes, a table and a video."
)
UNRECORDED = 4
EPILOG = (
    "Exit status: 0 the run did what it should, 1 it did not, 2 wrong input,"
    f" {UNRECORDED} it did but could not be recorded, 130 Ctrl-C."
)
FIRST_SEED = 900_000  # far from the seeds of the demonstrations
MAX_SEED = 1 << 63
EPISODES, EPISODES_WITH_FAULT = 10, 2
# --arm -> its robot file
ROBOTS = {
    "mujoco": ROOT / "configs" / "robots" / "panda.yaml",
    "ros2_control": ROOT / "configs" / "robots" / "panda_ros2_control.yaml",
}
# --policy -> its factory file
POLICIES = {
    "flow": ROOT / "configs" / "pick_place.yaml",
    "tokens": ROOT / "configs" / "pick_place_tokens.yaml",
}


def parse(words: Sequence[str] | None = None) -> argparse.Namespace:
    """The options, each possible by itself; exits with 2 and one line for one that is not."""
    parser = argparse.ArgumentParser(prog="make demo", description=DESCRIPTION, epilog=EPILOG)
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
        "--timeout", type=float, default=60.0, help="seconds until an episode counts as failed"
    )
    parser.add_argument(
        "--policy", choices=tuple(POLICIES), default="flow", help="which of the two shipped action models"
    )
    parser.add_argument("--config", type=Path, help="factory file (default: that of --policy)")
    parser.add_argument(
        "--arm",
        choices=tuple(ROBOTS),
        default="mujoco",
        help="mujoco: the arm node steps the simulation itself; ros2_control: with the driver of a real arm, against"
        " simulated controllers in a process of their own",
    )
    parser.add_argument("--robot", type=Path, help="robot file (default: see --arm)")
    parser.add_argument("--namespace", default="panda0", help="namespace and name of the robot")
    parser.add_argument("--out", type=Path, default=ROOT / "runs", help="where the run folder is made")
    parser.add_argument(
        "--operator", action="store_true", help="alerts wait for you instead of the demo's stand-in"
    )
    parser.add_argument("--result", action="store_true", help="also write benchmarks/results/demo.json")
    parser.add_argument("--no-video", action="store_true", help="do not render the video")
    args = parser.parse_args(words)
    args.robot = args.robot or ROBOTS[args.arm]
    args.config = args.config or POLICIES[args.policy]
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
