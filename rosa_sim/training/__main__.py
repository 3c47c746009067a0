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

SORT_PARTS = ("sort_parts_collect", "sort_parts_fit", "sort_parts_evaluate", "sort_parts_verdicts")
STEPS = (
    "collect",
    "policy",
    "monitor",
    "tokens",
    "range",
    "evaluate",
    "evaluate_tokens",
    "limits",
    *SORT_PARTS,
    "one_model",
)


def main() -> int:
    """Exit status 0, or 1 when an evaluation or `limits` missed an aim."""
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
    parser.add_argument(
        "--limit-cells",
        type=int,
        default=20,
        help="cells of `limits` for each change of the scene, and of `one_model`",
    )
    parser.add_argument(
        "--shards", type=int, default=SHARDS, help="of looks at the sorting cell, to train on"
    )
    parser.add_argument(
        "--eyes-steps", type=int, default=EYES_STEPS, help="training steps of each camera's eyes"
    )
    parser.add_argument(
        "--marks-steps",
        type=int,
        default=MARKS_STEPS,
        help="first training steps of the vla model, beside the eyes",
    )
    parser.add_argument(
        "--vla-steps", type=int, default=VLA_STEPS, help="training steps of the vla model in all"
    )
    parser.add_argument("--device", default="cpu", help="of the vla model's training: cpu or cuda")
    parser.add_argument(
        "--sort-seeds", type=int, default=SORT_SEEDS, help="seeds of each kind of sorting task"
    )
    parser.add_argument("--sort-looks", type=int, default=SORT_LOOKS, help="held-out looks to ask about")
    parser.add_argument("--sort-tables", type=int, default=SORT_TABLES, help="seeds whose tables are judged")
    parser.add_argument(
        "--choose", action="store_true", help="judge other tables, and print the verdicts by certainty"
    )
    args = parser.parse_args()

    from rosa_sim.training.pick_place import (
        collect,
        evaluate,
        evaluate_tokens,
        fit,
        fit_tokens,
        limits,
        picture_range,
    )
    from rosa_sim.training.sort_parts import collect as sort_collect
    from rosa_sim.training.sort_parts import evaluate as sort_evaluate
    from rosa_sim.training.sort_parts import fit as sort_fit
    from rosa_sim.training.sort_parts import one_model
    from rosa_sim.training.sort_parts import verdicts as sort_verdicts

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
    sorting = args.work / "sort_parts"
    if "sort_parts_collect" in steps:
        sort_collect.collect(sorting / "demos", args.shards, HAND_SHARDS, HELD_OUT_SHARDS, args.workers)
    if "sort_parts_fit" in steps:
        lengths = sort_fit.Steps(args.eyes_steps, args.marks_steps, args.vla_steps)
        print(f"wrote {sort_fit.fit_all(sorting / 'demos', lengths, sorting, args.workers, args.device)}")
    if "sort_parts_evaluate" in steps:
        met = (
            sort_evaluate.evaluate(sorting / "demos", args.sort_seeds, args.sort_looks, args.workers) and met
        )
    if "sort_parts_verdicts" in steps:
        met = sort_verdicts.judge(args.sort_tables, args.choose) and met
    if "one_model" in steps:
        one_model.compare(
            args.limit_cells, args.workers
        )  # says whether one would do, which nothing else waits for
    return 0 if met else 1


POLICY_STEPS, MONITOR_STEPS, TOKEN_STEPS = 1600, 1000, 2500  # the shipped weights
SHARDS, HAND_SHARDS, HELD_OUT_SHARDS = 39, 9, 4
EYES_STEPS, MARKS_STEPS, VLA_STEPS = 5000, 1200, 10_250
SORT_SEEDS, SORT_LOOKS, SORT_TABLES = 20, 600, 200

if __name__ == "__main__":
    sys.exit(main())
