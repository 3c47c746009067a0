"""`python -m rosa_sim.training STEP...`: trains the shipped models from scratch and evaluates them.

Each step stores its progress below `--work` and continues from there when it is started again.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("LP_NUM_THREADS", "1")  # the software renderer's threads: one process per core instead

STEPS = ("collect", "policy", "monitor", "tokens", "range", "evaluate", "evaluate_tokens", "limits")


def main() -> int:
    """Exit status 0, or 1 when `evaluate` or `limits` missed an aim."""
    root = Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(prog="python -m rosa_sim.training", description=__doc__)
    parser.add_argument(
        "step", choices=("all", *STEPS), nargs="+", help="what to do; all = one after the other"
    )
    parser.add_argument(
        "--work", type=Path, default=root / ".cache" / "training", help="demonstrations, checkpoints"
    )
    parser.add_argument("--workers", type=int, default=max(1, os.cpu_count() or 1), help="processes")
    parser.add_argument("--episodes", type=int, default=480, help="demonstrations to train on")
    parser.add_argument(
        "--held-out-episodes", type=int, default=100, help="demonstrations to test the monitor on"
    )
    parser.add_argument("--policy-steps", type=int, default=POLICY_STEPS, help="training steps of the policy")
    parser.add_argument(
        "--monitor-steps", type=int, default=MONITOR_STEPS, help="training steps of the monitor"
    )
    parser.add_argument(
        "--token-steps", type=int, default=TOKEN_STEPS, help="training steps of the token policy"
    )
    parser.add_argument("--engine", default="pipelined", help="of the token policy, for evaluate_tokens")
    parser.add_argument("--seeds", type=int, default=100, help="unseen seeds to evaluate on")
    parser.add_argument("--blank-seeds", type=int, default=20, help="seeds to evaluate on with blank images")
    parser.add_argument("--range-looks", type=int, default=2000, help="looks to fit the range of pictures on")
    parser.add_argument("--limit-cells", type=int, default=20, help="cells for each change of the scene")
    args = parser.parse_args()

    from rosa_sim.training import collect, evaluate, evaluate_tokens, fit, fit_tokens, limits, picture_range

    demos = args.work / "demos"
    steps = STEPS if "all" in args.step else args.step
    if "collect" in steps:
        collect.collect(demos, args.episodes, args.held_out_episodes, args.workers)
    if "policy" in steps:
        print(f"wrote {fit.fit_policy(collect.load(demos, held_out=False), args.policy_steps, args.work)}")
    if "monitor" in steps:
        print(f"wrote {fit.fit_monitor(collect.load(demos, held_out=False), args.monitor_steps, args.work)}")
    if "tokens" in steps:
        print(
            f"wrote {fit_tokens.fit_tokens(collect.load(demos, held_out=False), args.token_steps, args.work)}"
        )
    if "range" in steps:
        print(f"wrote {picture_range.fit_range(args.range_looks)}")
    met = "evaluate" not in steps or evaluate.evaluate(demos, args.seeds, args.blank_seeds, args.workers)
    if "evaluate_tokens" in steps:
        met = evaluate_tokens.evaluate_tokens(args.seeds, args.blank_seeds, args.workers, args.engine) and met
    if "limits" in steps:
        met = limits.measure_limits(args.limit_cells, args.workers) and met
    return 0 if met else 1


POLICY_STEPS, MONITOR_STEPS, TOKEN_STEPS = 1600, 1000, 2500  # the shipped weights

if __name__ == "__main__":
    sys.exit(main())
