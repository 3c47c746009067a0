"""Evaluates the vision-language-action model in the sorting cell, on seeds, layouts and phrasings that it never saw.

Shares come with Wilson's 95 % interval. Verdicts and plans are judged on held-out looks, one question a look, by which
nothing was ever chosen; tasks are played to their end.
"""

from __future__ import annotations

import multiprocessing
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tqdm import tqdm

from rosa_server.models.backend import Backend, ModelInput
from rosa_server.models.panda.common import CAMERAS
from rosa_server.models.panda.vision import to_tensor
from rosa_server.models.vla.backend import VlaBackend
from rosa_sim.closed_loop.table import wilson
from rosa_sim.training.base.results import RESULTS, conclude
from rosa_sim.training.sort_parts import words
from rosa_sim.training.sort_parts.dataset import Data, load, outcome_of_rule
from rosa_sim.training.sort_parts.episodes import KINDS, Player, SortEpisode
from rosa_sim.training.sort_parts.fit_eyes import report
from rosa_sim.training.sort_parts.looks import HAND
from rosa_sim.training.sort_parts.prompts import monitor_text

SORTS = {"three blocks by a rule, with System 2": True, "three blocks by a rule, without System 2": False}
# Row -> the smallest share that is aimed at (issue: "Honest evaluation").
MIN_SHARES = {
    "one block": 0.95,
    "one block, camera moved by 3 cm": 0.90,
    "one block, a quarter of the light": 0.90,
    "one white or black block": 0.90,
    "three blocks by a rule, with System 2": 0.85,
    "safety: unsafe said of unsafe looks (recall)": 0.99,
    "monitor: right verdicts, subtask": 0.97,
}
MAX_SHARES = {
    "safety: unsafe said of safe looks (false alarms)": 0.02,
    "one block, blank images": 0.05,
    "one block, a prompt for another one": 0.05,
}
SEEDS_PER_JOB = 5
Job = tuple[str, list[int]]


def evaluate(folder: Path, seeds: int, looks: int, workers: int, results: Path = RESULTS) -> bool:
    """Play `seeds` seeds of each kind, ask about `looks` held-out looks, write `vla.json`; whether the aims hold."""
    began_s = time.monotonic()
    names = [kind.name for kind in KINDS] + list(SORTS)
    jobs = [
        (name, list(range(first, min(first + SEEDS_PER_JOB, seeds))))
        for name in names
        for first in range(0, seeds, SEEDS_PER_JOB)
    ]
    episodes: dict[str, list[SortEpisode]] = {name: [] for name in names}
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        asked = pool.apply_async(ask_about_looks, (folder, looks))
        parts = pool.imap_unordered(_play, jobs)
        for name, part in tqdm(parts, total=len(jobs), desc="episodes", unit=f"x{SEEDS_PER_JOB}"):
            episodes[name] += part
        told = asked.get()
    rows = [episode_row(name, episodes[name]) for name in names] + told
    for row in rows:
        print("; ".join(f"{name}: {value}" for name, value in row.items() if name != "not done"))
    return conclude("vla", f"sort_parts_evaluate --sort-seeds {seeds}", rows, aims(rows), began_s, results)


def share_row(what: str, good: int, count: int) -> dict[str, Any]:
    """A share with its interval; `share` is None where nothing was counted."""
    if count == 0:
        return {"what": what, "good": 0, "of": 0, "share": None, "low": None, "high": None}
    low, high = wilson(good, count)
    return {
        "what": what,
        "good": good,
        "of": count,
        "share": round(good / count, 4),
        "low": round(low, 4),
        "high": round(high, 4),
    }


def episode_row(name: str, episodes: Sequence[SortEpisode]) -> dict[str, Any]:
    """Success, rounds of a success, what the monitor and System 2 said, and the episodes that did not succeed."""
    done = [one for one in episodes if one.outcome == "done"]
    asked = sum(one.rounds + 1 for one in episodes)
    row = share_row(name, len(done), len(episodes)) | {
        "rounds of a success, median": float(np.median([one.rounds for one in done])) if done else None,
        "outcomes": dict(Counter(one.outcome for one in episodes)),
    }
    if name in SORTS:
        plans = sum(one.plans for one in episodes)
        row["plans right"] = round(sum(one.plans_right for one in episodes) / plans, 4) if plans else None
    else:
        row["monitor right"] = round(sum(one.monitor_right for one in episodes) / asked, 4) if asked else None
    row["not done"] = [asdict(one) for one in sorted(episodes, key=lambda one: one.seed) if one not in done]
    return row


def aims(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What was aimed at: each share by itself, and three blocks better with System 2 than without."""
    share = {row["what"]: row.get("share") for row in rows}
    told: list[dict[str, Any]] = []
    for sign, bounds in (("at least", MIN_SHARES), ("at most", MAX_SHARES)):
        for what, bound in bounds.items():
            value = share[what]
            holds = value is not None and (value >= bound if bounds is MIN_SHARES else value <= bound)
            told.append(
                {"aim": f"{what}: {sign} {bound:.0%}".replace("%", " %"), "value": value, "holds": holds}
            )
    with_it, without = (share[name] or 0.0 for name in SORTS)
    told.append(
        {
            "aim": "three blocks: better with System 2 than without",
            "value": round(with_it - without, 4),
            "holds": with_it > without,
        }
    )
    return told


def ask_about_looks(folder: Path, looks: int) -> list[dict[str, Any]]:
    """Rows about held-out looks: plans, safety and the monitor, also with held-out phrasings and blank pictures."""
    data = load(folder, "evaluate")
    # Settled looks only: the robot asks when it stands still.
    at = np.flatnonzero(data["settled"])[:looks]
    data = {name: one[at] for name, one in data.items()}
    model = loaded()
    rows = []
    for suffix, held_out, blank in (
        ("", False, False),
        (", held-out phrasings", True, False),
        (", blank images", False, True),
    ):
        rows += _rows(model, data, suffix, held_out, blank)
    with torch.inference_mode():
        seen = [
            model.network.see([to_tensor(data[name][first : first + 64]) for name in CAMERAS]).numpy()
            for first in range(0, len(at), 64)
        ]
    return rows + report(data, np.concatenate(seen))


def _rows(model: Backend, data: Data, suffix: str, held_out: bool, blank: bool) -> list[dict[str, Any]]:
    def ask(component: str, prompt: Callable[[int], str]) -> list[str]:
        asked = [_input(data, row, component, prompt(row), blank) for row in range(len(data["seed"]))]
        return [
            answer.verdict or answer.text
            for first in range(0, len(asked), model.max_batch)
            for answer in model.infer(asked[first : first + model.max_batch])
        ]

    def rule(row: int) -> str:
        return words.rule_text(int(data["rule"][row]), row % 2, held_out)

    def subtask(row: int) -> str:
        return words.subtask_text(int(data["colour"][row]), int(data["bin"][row]), row % 3, held_out)

    safety = words.HELD_OUT_SAFETY_QUESTIONS if held_out else words.SAFETY_QUESTIONS
    monitor = words.HELD_OUT_MONITOR_QUESTIONS if held_out else words.MONITOR_QUESTIONS
    planned = ask("system2", rule)
    true_plans = [words.plan_text((int(c), int(b)) if c >= 0 else None) for c, b in data["plan"]]
    said_safe = ask("safety", lambda row: safety[row % len(safety)])
    progress = ask("monitor", lambda row: monitor_text(subtask(row), monitor[row % len(monitor)]))
    whole = ask("monitor", lambda row: monitor_text(rule(row), monitor[row % len(monitor)]))
    outcomes: list[str] = [words.OUTCOMES[one] for one in data["outcome"]]
    wholes: list[str] = [words.OUTCOMES[one] for one in outcome_of_rule(data)]
    unsafe = [said for said, safe in zip(said_safe, data["safe"], strict=True) if not safe]
    in_sight = shows_hand(data)
    seen = [
        said
        for said, safe, there in zip(said_safe, data["safe"], in_sight, strict=True)
        if not safe and there
    ]
    clear = [said for said, safe in zip(said_safe, data["safe"], strict=True) if safe]
    wrong = [said for said, true in zip(progress, outcomes, strict=True) if said not in ("ongoing", true)]
    return [
        share_row(f"plans: right next subtask{suffix}", _equal(planned, true_plans), len(planned)),
        share_row(
            f"safety: unsafe said of unsafe looks (recall){suffix}", unsafe.count("unsafe"), len(unsafe)
        ),
        share_row(f"safety: recall where a camera shows the hand{suffix}", seen.count("unsafe"), len(seen)),
        share_row(
            f"safety: unsafe said of safe looks (false alarms){suffix}", clear.count("unsafe"), len(clear)
        ),
        share_row(f"monitor: right verdicts, subtask{suffix}", _equal(progress, outcomes), len(progress)),
        share_row(f"monitor: wrong done or failed, subtask{suffix}", len(wrong), len(progress)),
        share_row(f"monitor: right verdicts, whole sort{suffix}", _equal(whole, wholes), len(whole)),
    ]


def shows_hand(data: Data) -> NDArray[np.bool_]:
    """Whether any camera shows a part of a hand `(n,)`: behind the arm and out of the pictures none does."""
    shown: NDArray[np.bool_] = np.any([data[f"pixels_{name}"][:, HAND, 2] > 0.5 for name in CAMERAS], axis=0)
    return shown


def _equal(said: Sequence[str], true: Sequence[str]) -> int:
    return sum(one == other for one, other in zip(said, true, strict=True))


def _input(data: Data, row: int, component: str, prompt: str, blank: bool) -> ModelInput:
    images: dict[str, NDArray[np.uint8]] = {name: data[name][row] for name in CAMERAS}
    if blank:
        images = {name: np.zeros_like(one) for name, one in images.items()}
    state = {
        "joint_position": data["joint_position"][row],
        "gripper_width": np.array([data["gripper_width"][row]], np.float32),
    }
    return replace(ModelInput(component), prompt=prompt, images=images, state=state)


def loaded() -> VlaBackend:
    """The shipped model."""
    model = VlaBackend()
    model.load()
    return model


def _play(job: Job) -> tuple[str, list[SortEpisode]]:
    name, seeds = job
    kind = next((one for one in KINDS if one.name == name), KINDS[0])
    player = Player(loaded(), kind)
    try:
        if name in SORTS:
            return name, [player.whole_sort(seed, SORTS[name]) for seed in seeds]
        return name, [player.one_block(seed) for seed in player.fitting(seeds)]
    finally:
        player.close()
