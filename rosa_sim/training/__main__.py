"""`python -m rosa_sim.training STEP...`: trains the shipped models from scratch and evaluates them.

Each step stores its progress below `--work` and continues from there when it is started again.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("LP_NUM_THREADS", "1")  # the software renderer's threads: one process per core instead

STEPS = (
    "collect",
    "policy",
    "monitor",
    "tokens",
    "range",
    "evaluate",
    "evaluate_tokens",
    "limits",
    "sort_parts_collect",
    "sort_parts_fit",
    "sort_parts_evaluate",
    "sort_parts_verdicts",
    "one_model",
)
HAND_SHARDS, HELD_OUT_SHARDS = 9, 4
OPTIONS: dict[str, tuple[int, str]] = {  # the defaults of `--...-steps` are those of the shipped weights
    "--workers": (max(1, os.cpu_count() or 1), "processes"),
    "--episodes": (480, "demonstrations to train on"),
    "--held-out-episodes": (100, "demonstrations to test the monitor on"),
    "--policy-steps": (1600, "training steps of the policy"),
    "--monitor-steps": (1000, "training steps of the monitor"),
    "--token-steps": (2500, "training steps of the token policy"),
    "--seeds": (100, "unseen seeds to evaluate on"),
    "--blank-seeds": (20, "seeds to evaluate on with blank images"),
    "--range-looks": (2000, "looks to fit the range of pictures on"),
    "--limit-cells": (20, "cells of `limits` for each change of the scene, and of `one_model`"),
    "--shards": (39, "of looks at the sorting cell, to train on"),
    "--eyes-steps": (5000, "training steps of each camera's eyes"),
    "--marks-steps": (1200, "first training steps of the vla model, beside the eyes"),
    "--vla-steps": (10_250, "training steps of the vla model in all"),
    "--sort-seeds": (20, "seeds of each kind of sorting task"),
    "--sort-looks": (600, "held-out looks to ask about"),
    "--sort-tables": (200, "seeds whose tables are judged"),
}


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
    for name, (default, words) in OPTIONS.items():
        parser.add_argument(name, type=int, default=default, help=words)
    parser.add_argument("--engine", default="pipelined", help="of the token policy, for evaluate_tokens")
    parser.add_argument("--device", default="cpu", help="of the vla model's training: cpu or cuda")
    parser.add_argument(
        "--choose", action="store_true", help="judge other tables, and print the verdicts by certainty"
    )
    args = parser.parse_args()
    steps = steps_of(args)
    met = [steps[name]() for name in STEPS if {name, "all"} & {*args.step}]
    return 0 if all(met) else 1


def steps_of(args: argparse.Namespace) -> dict[str, Callable[[], bool]]:
    """What each step does, and whether it met its aims."""
    from rosa_sim.cell.layout.hardware import PICK_PLACE, SORT_PARTS
    from rosa_sim.training.data.collect import collect, shards_of
    from rosa_sim.training.data.dataset import load
    from rosa_sim.training.data.moves import RECIPES
    from rosa_sim.training.judge import evaluate, evaluate_vla, limits, one_model, verdicts
    from rosa_sim.training.networks import picture_range, small, token_policy, vla

    demos, sorting = args.work / "demos", args.work / "sort_parts"
    per_shard = RECIPES[PICK_PLACE].episodes_per_shard
    shards = shards_of(PICK_PLACE, args.episodes // per_shard, args.held_out_episodes // per_shard)
    sort_shards = shards_of(SORT_PARTS, args.shards, HELD_OUT_SHARDS, HAND_SHARDS)
    lengths = vla.Steps(args.eyes_steps, args.marks_steps, args.vla_steps)

    def wrote(path: Path) -> bool:
        print(f"wrote {path}")
        return True

    def collected(folder: Path, scene: str, first_seeds: list[int]) -> bool:
        collect(folder, scene, first_seeds, args.workers)
        return True

    def compared() -> bool:
        one_model.compare(args.limit_cells, args.workers)
        return True  # says whether one would do, which nothing else waits for

    return {
        "collect": lambda: collected(demos, PICK_PLACE, shards),
        "policy": lambda: wrote(small.fit_policy(load(demos, "train"), args.policy_steps, args.work)),
        "monitor": lambda: wrote(small.fit_monitor(load(demos, "train"), args.monitor_steps, args.work)),
        "tokens": lambda: wrote(token_policy.fit_tokens(load(demos, "train"), args.token_steps, args.work)),
        "range": lambda: wrote(picture_range.fit_range(args.range_looks)),
        "evaluate": lambda: evaluate.evaluate(demos, args.seeds, args.blank_seeds, args.workers),
        "evaluate_tokens": lambda: evaluate.evaluate_tokens(
            args.seeds, args.blank_seeds, args.workers, args.engine
        ),
        "limits": lambda: limits.measure_limits(args.limit_cells, args.workers),
        "sort_parts_collect": lambda: collected(sorting / "demos", SORT_PARTS, sort_shards),
        "sort_parts_fit": lambda: wrote(
            vla.fit_all(sorting / "demos", lengths, sorting, args.workers, args.device)
        ),
        "sort_parts_evaluate": lambda: evaluate_vla.evaluate(
            sorting / "demos", args.sort_seeds, args.sort_looks, args.workers
        ),
        "sort_parts_verdicts": lambda: verdicts.judge(args.sort_tables, args.choose),
        "one_model": compared,
    }


if __name__ == "__main__":
    sys.exit(main())
