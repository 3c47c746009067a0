"""Factories that nobody tuned anything for: do plans come true, and does the fleet hold under five disturbances?

    python -m benchmarks.fleet.random_factories [--factories 200] [--first 0] [--seconds 20] [--resume [--renew]]
    python -m benchmarks.fleet.random_factories --seeds 34,122 [--resume [--renew]]

Each factory is drawn by its number (rosa_sim/fleet/random_factory.py), planned, and executed from both starts and under
five disturbances, beside the paper's system and two baselines (rosa_sim/fleet/random_bench.py). Writes
benchmarks/results/random_factories.json after each factory; `--resume` keeps those that are there, and `--renew` then
does those again that an older version has planned or executed. `--first`: the number of the first one. `--seeds`: these
factories alone; all others stay in the file as they are. Several runs with `--resume` or `--seeds` may go on at a time.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks import RESULTS
from benchmarks.conclude import ON_ONE_CORE, print_aims, write
from rosa_sim.fleet.random_bench import IN_TIME, JITTER, NEAR, NOISE, SECONDS, VERSION, judged
from rosa_sim.fleet.scenario import RANDOM, TOGETHER

RESULT = RESULTS / "random_factories.json"
FAR = 0.10
Row = dict[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--factories", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="number of the first factory")
    parser.add_argument("--seeds", type=numbers, help="these factories alone, separated by commas")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="measured in each run")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument(
        "--renew", action="store_true", help="with --resume: older ones again, after new ones"
    )
    arguments = parser.parse_args()
    logging.getLogger("rosa.link").setLevel(logging.ERROR)
    kept = (arguments.resume or arguments.seeds) and RESULT.exists()
    rows = rows_there() if kept else []
    all_of_them = range(arguments.first, arguments.first + arguments.factories)
    for seed in to_do(rows, arguments.seeds or all_of_them, arguments.resume, arguments.renew):
        row = judged(seed, arguments.seconds).plain()
        print(json.dumps(row), flush=True)
        with locked(RESULTS):
            before = rows_there() if kept else rows
            rows = [*(each for each in before if each["seed"] != seed), row]
            rows.sort(key=lambda each: each["seed"])
            save(rows, all_of_them, arguments.seconds)
    print_aims(aims_of(rows))
    return 0


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Nobody else has this folder locked meanwhile."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def rows_there() -> list[Row]:
    """What the result file has."""
    found: list[Row] = json.loads(RESULT.read_text())["rows"]
    return found


def numbers(words: str) -> list[int]:
    """`34,122` as seeds. Raises `ValueError`."""
    return [int(word) for word in words.split(",")]


def to_do(rows: Sequence[Row], asked: Sequence[int], resume: bool, renew: bool) -> list[int]:
    """Which of the seeds that are asked for are planned and executed: those that are missing first."""
    if not resume:
        return list(asked)
    known = {row["seed"] for row in rows}
    again = older(rows) if renew else []
    return [seed for seed in asked if seed not in known] + [seed for seed in again if seed in asked]


def older(rows: Sequence[Row]) -> list[int]:
    """Seeds that were planned or executed before what is planned and executed changed."""
    return [row["seed"] for row in rows if row.get("version", 1) < VERSION]


def save(rows: Sequence[Row], asked: range, seconds: float) -> None:
    """The result file, which says what is missing in it and what is old."""
    notes = [
        "One seed; service times vary by 3 %, 0.5 ms of network each way, 10 s left out. Where a component seems to be"
        " late, a prediction to be off, or a system to be better, it is measured for six times as long.",
        f"{sum(not row['any_arrivals'] for row in rows)} of {len(rows)} schedules hold only as the server lets"
        " robots call, not whenever calls come.",
        "Where a disturbance takes the fleet below the schedule's own rates, robots that keep to these are"
        " executed under the same (`at_own_rates`): a longer way alone makes every round longer.",
    ]
    there = sum(row["seed"] in asked for row in rows)
    if there < len(asked):
        notes.append(
            f"Interrupted: {there} of {len(asked)} factories from {asked.start} on; --resume goes on."
        )
    if old := older(rows):
        notes.append(
            f"{len(old)} of {len(rows)} are of an older version (`version`: 2 asks no more robots than a batch runs and"
            " plans for calls that come evenly, 3 plays schedules that hold only as robots are let call on slower"
            " networks, too, with 4 budgets leave out the way, and verdicts that would be late make no others late,"
            " with 5 robots that are told to call have the next turn of a GPU of several models, with 6 what is told is"
            " measured for 30 s at least, or a minute, and executed on the network that it is told for);"
            f" --resume --renew does them again: seeds {old}."
        )
    notes += present_alone(rows)
    first = f"--first {asked.start} " if asked.start else ""
    options = f"{first}--factories {len(asked)} --seconds {seconds:g}"
    write(RESULT, list(rows), aims_of(rows), notes, options, how=ON_ONE_CORE)


def present_alone(rows: Sequence[Row]) -> list[str]:
    """A note on what the factories of the present version reach, where others are older."""
    present = [row for row in rows if row.get("version", 1) >= VERSION]
    if not present or len(present) == len(rows):
        return []
    reached = "; ".join(f"{aim['aim']}: {aim['value']}" for aim in aims_of(present))
    return [f"Version {VERSION} alone, {len(present)} factories: {reached}."]


def aims_of(rows: Sequence[Row]) -> list[Row]:
    """What is wanted, and what came of it."""
    served = [row for row in rows if not row["refused"]]
    if not served:
        return []
    starts = [[row["runs"][start] for start in (RANDOM, TOGETHER)] for row in served]
    errors = [
        max(abs(run["hz"] / row["predicted_hz"] - 1) for run in runs)
        for row, runs in zip(served, starts, strict=True)
    ]
    calm = [min(run["meet"] for run in runs) for runs in starts]
    jitter = [row["runs"][JITTER]["meet"] for row in served]
    beaten = [
        row["runs"][RANDOM]["qualified_hz"] >= (1 - NOISE) * max(row["others"].values(), default=0.0)
        for row in served
    ]
    planned = [
        all(row["runs"][name]["hz"] >= (1 - NOISE) * hz for name, hz in row["at_own_rates"].items())
        for row in served
    ]
    refused = [row for row in rows if row["refused"]]
    open_ = [row["seed"] for row in refused if not row["proof"]]
    over = [row["seed"] for row in served if row["runs"][RANDOM]["hz"] > (1 + NOISE) * row["limit_hz"]]

    def share(name: str, found: Sequence[bool], lowest: float) -> Row:
        value = sum(found) / len(found)
        return {"aim": name, "value": f"{sum(found)} of {len(found)}", "holds": value >= lowest}

    return [
        share("predicted within 3 % from both starts, in 95 %", [error <= NEAR for error in errors], 0.95),
        share("predicted within 10 %, in all", [error <= FAR for error in errors], 1.0),
        share("every component in time in 99 % of calls, in 98 %", [meet >= IN_TIME for meet in calm], 0.98),
        share("the same with 3 ms of jitter, in 95 %", [meet >= IN_TIME for meet in jitter], 0.95),
        share("never below the paper's system and the baselines", beaten, 1.0),
        share("never below the schedule's own rates, under any disturbance", planned, 1.0),
        {"aim": "nothing exceeds the limit", "value": f"seeds {over}" if over else "none", "holds": not over},
        {
            "aim": "refused only where nothing could serve it",
            "value": f"{len(refused)} refused, not proved: seeds {open_}"
            if open_
            else f"{len(refused)} refused",
            "holds": not open_,
        },
    ]


if __name__ == "__main__":
    raise SystemExit(main())
