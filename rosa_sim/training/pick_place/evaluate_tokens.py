"""Evaluates the token policy on unseen seeds through an engine: `python -m rosa_sim.training evaluate_tokens`.

Every episode is that of the demo: look, infer, play 400 ms, hold. Seeds are those that `evaluate` uses, none of which
occurs in the demonstrations.
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

from rosa_server.models.token_policy.backend import TokenPolicyBackend
from rosa_sim.cell.render import SceneRenderer
from rosa_sim.cell.world import World
from rosa_sim.training.base.results import RESULTS, conclude
from rosa_sim.training.base.trials import Trial, failures_row, play_many, success_aims, success_rows
from rosa_sim.training.pick_place.collect import POLICY_CAMERAS
from rosa_sim.training.pick_place.evaluate import play

AIM = 0.9


def evaluate_tokens(
    seeds: int, blank_seeds: int, workers: int, engine: str = "pipelined", results: Path = RESULTS
) -> bool:
    """Play, print and write `token_policy.json`; returns whether the aims hold."""
    began_s = time.monotonic()
    play_some = partial(_play, engine=engine)
    trials = play_many(list(range(seeds)), False, workers, play_some)
    blank = play_many(list(range(blank_seeds)), True, workers, play_some)
    rows = [*success_rows(trials, blank), failures_row(trials)]
    for row in rows:
        print(f"{row['what']:<50} {row['value']}")
    command = f"evaluate_tokens --seeds {seeds} --engine {engine}"
    return conclude("token_policy", command, rows, success_aims(trials, blank, AIM), began_s, results)


def _play(seeds: list[int], blank: bool, engine: str) -> list[Trial]:
    policy = TokenPolicyBackend(engine=engine)
    policy.load()
    world, renderer = World(seeds[0]), SceneRenderer(POLICY_CAMERAS)
    try:
        return [play(seed, world, renderer, policy, None, blank) for seed in seeds]
    finally:
        renderer.close()
        policy.close()
