"""`python -m rosa_sim.training.act [STEP...]`: LeRobot's ACT from nothing, with the Python of LeRobot's environment.

look: pictures for the eyes. record: demonstrations as a LeRobot dataset. eyes, fit: training. play: the policy in
LeRobot's own loop.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("LP_NUM_THREADS", "1")  # the software renderer's threads
os.environ.setdefault("HF_HUB_OFFLINE", "1")

STEPS = ("look", "record", "eyes", "fit", "play")
FIRST_SEED = 900_000  # as `make demo`


def main() -> None:
    root = Path(__file__).resolve().parents[3]
    parser = argparse.ArgumentParser(prog="python -m rosa_sim.training.act", description=__doc__)
    parser.add_argument(
        "step",
        choices=("all", *STEPS),
        nargs="*",
        default="all",
        help="one after the other; all: but the last",
    )
    parser.add_argument("--work", type=Path, default=root / ".cache" / "act", help="dataset and checkpoints")
    parser.add_argument("--demonstrations", type=int, default=320, help="pieces of 0.8 s to record")
    parser.add_argument("--looks", type=int, default=5000, help="single pictures for the eyes")
    parser.add_argument("--eyes-steps", type=int, default=1200, help="training steps of the eyes")
    parser.add_argument(
        "--steps", type=int, default=2400, help="training steps of the policy with the eyes as they are"
    )
    parser.add_argument(
        "--joint-steps", type=int, default=0, help="training steps of both together, after that"
    )
    parser.add_argument("--policy", type=Path, help="checkpoint (default: WORK/policy)")
    parser.add_argument("--episodes", type=int, default=20, help="to play")
    parser.add_argument("--seed", type=int, default=FIRST_SEED, help="scene of the first episode")
    parser.add_argument("--out", type=Path, help="write what was played, as JSON")
    parser.add_argument("--threads", type=int, default=1, help="of PyTorch")
    args = parser.parse_args()

    import torch

    torch.set_num_threads(args.threads)
    steps = STEPS[:-1] if "all" in args.step else args.step
    policy = args.policy or args.work / "policy"
    if "look" in steps or "record" in steps:
        from rosa_sim.training.act.record import look, record

        if "look" in steps:
            look(args.work, args.looks)
        if "record" in steps:
            record(args.work, args.demonstrations)
    if "eyes" in steps:
        from rosa_sim.training.act.eyes import fit_eyes
        from rosa_sim.training.act.record import load_truth

        print(f"wrote {fit_eyes(load_truth(args.work), args.eyes_steps, args.work / 'eyes.safetensors')}")
    if "fit" in steps:
        from rosa_sim.training.act.fit import fit_act

        eyes = args.work / "eyes.safetensors"
        print(f"wrote {fit_act(args.work / 'dataset', eyes, policy, args.steps, args.joint_steps)}")
    if "play" in steps:
        from rosa_sim.training.act.evaluate import evaluate

        evaluate(policy, list(range(args.seed, args.seed + args.episodes)), args.out)


if __name__ == "__main__":
    main()
