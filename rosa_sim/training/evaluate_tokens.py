"""Evaluates the token policy on unseen seeds through an engine: `python -m rosa_sim.training evaluate_tokens`.

Every episode is that of the demo: look, infer, play 400 ms, hold. Seeds are those that `evaluate` uses, none of which
occurs in the demonstrations.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import platform
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path

import numpy as np
from tqdm import tqdm

from rosa_server.models.token_policy.backend import TokenPolicyBackend
from rosa_sim.cell.render import SceneRenderer
from rosa_sim.cell.world import World
from rosa_sim.training.collect import POLICY_CAMERAS
from rosa_sim.training.evaluate import RESULTS, Trial, play

AIM = 0.9
SEEDS_PER_JOB = 4
Job = tuple[list[int], bool, str]


def evaluate_tokens(
    seeds: int, blank_seeds: int, workers: int, engine: str = "pipelined", results: Path = RESULTS
) -> bool:
    """Play, print and write `token_policy.json`; returns whether the aims hold."""
    began_s = time.monotonic()
    trials = _play_all(list(range(seeds)), False, engine, workers)
    blank = _play_all(list(range(blank_seeds)), True, engine, workers)
    success = float(np.mean([one.outcome == "done" for one in trials]))
    blank_success = float(np.mean([one.outcome == "done" for one in blank]))
    rounds = [one.rounds for one in trials if one.outcome == "done"]
    rows = [
        {"what": f"success on {seeds} unseen seeds", "value": round(success, 4)},
        {"what": f"success on {blank_seeds} unseen seeds, blank images", "value": round(blank_success, 4)},
        {"what": "outcomes", "value": dict(Counter(one.outcome for one in trials))},
        {
            "what": "rounds of a success, median and most",
            "value": [float(np.median(rounds or [0])), max(rounds or [0])],
        },
        {
            "what": "episodes that did not succeed",
            "value": [asdict(one) for one in trials if one.outcome != "done"],
        },
    ]
    aims = [
        {"aim": "at least 90 % of unseen seeds succeed", "value": success, "holds": success >= AIM},
        {
            "aim": "at most 5 % succeed with blank images",
            "value": blank_success,
            "holds": blank_success <= 0.05,
        },
    ]
    for row in rows:
        print(f"{row['what']:<50} {row['value']}")
    for aim in aims:
        print(f"{'holds' if aim['holds'] else 'MISSED':<7} {aim['aim']}: {aim['value']:.3f}")
    report = {
        "name": "token_policy",
        "command": f"python -m rosa_sim.training evaluate_tokens --seeds {seeds} --engine {engine}",
        "machine": f"{os.cpu_count()} cores {platform.machine()}, no GPU",
        "date": time.strftime("%Y-%m-%d"),
        "duration_s": round(time.monotonic() - began_s, 1),
        "rows": rows,
        "aims": aims,
    }
    results.mkdir(parents=True, exist_ok=True)
    (results / "token_policy.json").write_text(json.dumps(report, indent=1) + "\n")
    return all(bool(aim["holds"]) for aim in aims)


def _play_all(seeds: list[int], blank: bool, engine: str, workers: int) -> list[Trial]:
    jobs = [(seeds[i : i + SEEDS_PER_JOB], blank, engine) for i in range(0, len(seeds), SEEDS_PER_JOB)]
    label = "blank images" if blank else "unseen seeds"
    trials: list[Trial] = []
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        for part in tqdm(pool.imap_unordered(_play, jobs), total=len(jobs), desc=label, unit="x4"):
            trials += part
    return sorted(trials, key=lambda one: one.seed)


def _play(job: Job) -> list[Trial]:
    seeds, blank, engine = job
    policy = TokenPolicyBackend(engine=engine)
    policy.load()
    world, renderer = World(seeds[0]), SceneRenderer(POLICY_CAMERAS)
    try:
        return [play(seed, world, renderer, policy, None, blank) for seed in seeds]
    finally:
        renderer.close()
        policy.close()
