"""What a robot's state in an engine costs it when it moves to another worker: with the shipped weights, on the CPU.

    python -m benchmarks.engines.moved_state [--looks 20]

A robot asks two workers of each engine in turns, and another copy of it asks one of them alone. `differs`: the greatest
difference between the answers of both (rad; words and verdicts: how many differ), so what is lost with the state.
`stays`: a call about a new observation where the robot was before; `moved`: the first one at the other worker. With
shared prefixes, `again stays` and `again moved`: another component's call about the observation that a worker has just
seen, there and at the other one; the difference is the prefix that is computed a second time. Milliseconds, medians.
Writes benchmarks/results/moved_state.json.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks import RESULTS
from benchmarks.conclude import Row, conclude
from rosa_server.models.backend import ModelInput, ModelOutput
from rosa_server.models.registry import create

RESULT = RESULTS / "moved_state.json"
ENGINES = (
    ("vla", "isolated"),
    ("vla", "kv_sharing"),
    ("token_policy", "plain"),
    ("token_policy", "continuous"),
    ("token_policy", "pipelined"),
)
SIDE, MAX_DIFFERENCE_RAD = 96, 1e-3
PROMPTS = {"vla": "put the red block into the left bin", "token_policy": "pick up the cube"}


def looks(count: int, images: Mapping[str, tuple[int, int]]) -> Iterator[ModelInput]:
    """Observations of one robot, each with a name."""
    rng = np.random.default_rng(3)
    for number in range(count):
        joints = np.array([0.02 * number, -0.2, 0.0, -2.3, 0.0, 2.1, 0.8], np.float32)
        yield ModelInput(
            "system1",
            images={name: rng.integers(0, 256, (*size, 3), dtype=np.uint8) for name, size in images.items()},
            state={"joint_position": joints, "gripper_width": np.array([0.04], np.float32)},
            robot="r1",
            observation=f"1:{number}",
        )


def asked(backend: Any, one: ModelInput) -> tuple[float, ModelOutput]:
    """Milliseconds, and the answer."""
    began_s = time.perf_counter()
    (answer,) = backend.infer([one])
    return 1000 * (time.perf_counter() - began_s), answer


def difference(one: ModelOutput, other: ModelOutput) -> float:
    """Greatest of actions, rad; 1 for other words or another verdict."""
    if (one.text, one.verdict) != (other.text, other.verdict):
        return 1.0
    pairs = [(one.arrays["actions"], other.arrays["actions"])] if "actions" in one.arrays else []
    return max((float(np.abs(a - b).max()) for a, b in pairs), default=0.0)


def measure(name: str, engine: str, count: int) -> Row:
    """One engine."""
    here, there = (create(name, engine=engine) for _ in range(2))
    for backend in (here, there):
        backend.load()
        backend.warm_up()
    spec = here.input_spec
    stays, moved, again_stays, again_moved, differs = [], [], [], [], 0.0
    for number, look in enumerate(looks(2 * count, spec.images)):
        look = replace(look, prompt=PROMPTS[name])
        ms, alone = asked(here, replace(look, observation=f"2:{number}", robot="r2"))
        stays.append(ms)
        at, other = (here, there) if number % 2 else (there, here)  # it moves with every observation
        ms, answer = asked(at, look)
        moved.append(ms)
        differs = max(differs, difference(alone, answer))
        if name == "vla":
            judged = replace(look, component="safety", prompt="is the workcell safe?")
            same, answer = asked(at, judged)
            new, elsewhere = asked(other, judged)
            again_stays.append(same)
            again_moved.append(new)
            differs = max(differs, difference(answer, elsewhere))
    for backend in (here, there):
        backend.close()
    row: Row = {"model": name, "engine": engine, "differs": round(differs, 6)}
    row |= {"stays_ms": round(median(stays), 2), "moved_ms": round(median(moved), 2)}
    if again_stays:
        row |= {
            "again_stays_ms": round(median(again_stays), 2),
            "again_moved_ms": round(median(again_moved), 2),
        }
    return row


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--looks", type=int, default=20, help="at each of the two workers")
    parser.add_argument("--out", type=Path, default=RESULT)
    arguments = parser.parse_args()
    rows = [measure(name, engine, arguments.looks) for name, engine in ENGINES]
    worst = max(row["differs"] for row in rows)
    aims = [
        {
            "aim": f"a robot that moves gets the same answers, to {MAX_DIFFERENCE_RAD:g} rad, whatever the engine",
            "holds": worst <= MAX_DIFFERENCE_RAD,
            "value": f"at most {worst:g} apart",
        }
    ]
    note = "An engine's state belongs to one observation (shared prefixes) or to one call (token slots)."
    conclude(arguments.out, rows, aims, note)
    return 0 if aims[0]["holds"] else 1


if __name__ == "__main__":
    raise SystemExit(main())
