"""Evaluates the vision-language-action model in the sorting cell, on seeds, layouts and phrasings that it never saw.

Shares come with Wilson's 95 % interval. Verdicts and plans are judged on held-out looks, one question a look, by which
nothing was ever chosen; tasks are played to their end.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rosa_server.models.backend import Backend
from rosa_server.models.panda.common import CAMERAS
from rosa_server.models.panda.vision import to_tensor
from rosa_server.models.vla.backend import VlaBackend
from rosa_sim.cell.layout.hardware import SORT_PARTS
from rosa_sim.cell.layout.variation import Variation, with_camera_moved
from rosa_sim.training.data import words
from rosa_sim.training.data.dataset import Data, input_of, load, outcome_of_rule
from rosa_sim.training.data.looks import HAND
from rosa_sim.training.judge.episodes import Kind, Trial, one_block, whole_sort
from rosa_sim.training.judge.results import conclude
from rosa_sim.training.judge.trials import aim, play_all, play_kind, share_row, vla
from rosa_sim.training.networks.eyes import report
from rosa_sim.training.networks.learn import RESULTS


def in_a_quarter_of_the_light(seen: Variation) -> Variation:
    """Every cell as dark as the darkest that was trained on."""
    factor = 0.25 * seen.layout.lighting["headlight"] / seen.headlight
    return replace(
        seen,
        key_diffuse=seen.key_diffuse * factor,
        fill=seen.fill * factor,
        headlight=seen.headlight * factor,
    )


KINDS = (
    Kind("one block", one_block),
    Kind("one block, camera moved by 3 cm", one_block, with_camera_moved(0.03)),
    Kind("one block, a quarter of the light", one_block, in_a_quarter_of_the_light),
    Kind("one white or black block", one_block, pale=True),
    Kind("one block, held-out phrasings", one_block, held_out=True),
    Kind("one block, blank images", one_block, blank=True),
    Kind("one block, a prompt for another one", one_block, wrong_prompt=True),
    Kind("three blocks by a rule, with System 2", whole_sort, with_system2=True),
    Kind("three blocks by a rule, without System 2", whole_sort),
)
SORTS = tuple(kind.name for kind in KINDS if kind.task is whole_sort)
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


def evaluate(folder: Path, seeds: int, looks: int, workers: int, results: Path = RESULTS) -> bool:
    """Play `seeds` seeds of each kind, ask about `looks` held-out looks, write `vla.json`; whether the aims hold."""
    began_s = time.monotonic()
    beside = partial(ask_about_looks, folder, looks)
    found, told = play_all({kind.name: seeds for kind in KINDS}, _play, workers, beside)
    rows = [episode_row(name, trials) for name, trials in found.items()] + told
    for row in rows:
        print("; ".join(f"{name}: {value}" for name, value in row.items() if name != "not done"))
    return conclude("vla", f"sort_parts_evaluate --sort-seeds {seeds}", rows, aims(rows), began_s, results)


def episode_row(name: str, episodes: Sequence[Trial]) -> dict[str, Any]:
    """Success, rounds of a success, what the monitor and System 2 said, and the episodes that did not succeed."""
    done = [one for one in episodes if one.outcome == "done"]
    asked = sum(len(one.looks) for one in episodes)
    row = share_row(name, len(done), len(episodes)) | {
        "rounds of a success, median": float(np.median([one.rounds for one in done])) if done else None,
        "outcomes": dict(Counter(one.outcome for one in episodes)),
    }
    if name in SORTS:
        plans = sum(one.plans for one in episodes)
        row["plans right"] = round(sum(one.plans_right for one in episodes) / plans, 4) if plans else None
    else:
        row["monitor right"] = round(sum(one.monitor_right for one in episodes) / asked, 4) if asked else None
    row["not done"] = [one.told() for one in sorted(episodes, key=lambda one: one.seed) if one not in done]
    return row


def aims(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What was aimed at: each share by itself, and three blocks better with System 2 than without."""
    share = {row["what"]: row.get("share") for row in rows}
    told: list[dict[str, Any]] = []
    for sign, bounds in (("at least", MIN_SHARES), ("at most", MAX_SHARES)):
        for what, bound in bounds.items():
            value = share[what]
            holds = value is not None and (value >= bound if bounds is MIN_SHARES else value <= bound)
            told.append(aim(f"{what}: {sign} {bound:.0%}".replace("%", " %"), value, holds))
    with_it, without = (share[name] or 0.0 for name in SORTS)
    told.append(
        aim("three blocks: better with System 2 than without", round(with_it - without, 4), with_it > without)
    )
    return told


def ask_about_looks(folder: Path, looks: int) -> list[dict[str, Any]]:
    """Rows about held-out looks: plans, safety and the monitor, also with held-out phrasings and blank pictures."""
    data = load(folder, "evaluate")
    # Settled looks only: the robot asks when it stands still.
    at = np.flatnonzero(data["settled"])[:looks]
    data = {name: one[at] for name, one in data.items()}
    model = VlaBackend()
    model.load()
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
        asked = [input_of(data, row, component, prompt(row), blank) for row in range(len(data["seed"]))]
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
    progress = ask("monitor", lambda row: words.monitor_text(subtask(row), monitor[row % len(monitor)]))
    whole = ask("monitor", lambda row: words.monitor_text(rule(row), monitor[row % len(monitor)]))
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


def _play(name: str, seeds: list[int]) -> list[Trial]:
    kind = next(one for one in KINDS if one.name == name)
    return play_kind(vla(judges=name not in SORTS), kind, seeds, SORT_PARTS)
