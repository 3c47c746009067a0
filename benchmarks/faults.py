"""Every fault x what was promised x what happened, in the whole running cell: real processes, real sockets.

    make faults        (or: python benchmarks/faults.py [--repetitions 20] [--only NAME ...] [--cells 2] [--again])

Each repetition is one pick-and-place episode with the trained models, into whose middle the fault falls. What has been
measured is kept in .cache/faults/ at once: a run that was interrupted goes on where it was; `--again` starts anew.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import yaml

from rosa_client.bringup import BringupError, end_on_signals
from rosa_client.graph import Robot
from rosa_contract.errors import ContractError
from rosa_sim.episodes import EpisodeError, episodes
from rosa_sim.faults.cell import PLACES, FaultyCell, free_ports, plan
from rosa_sim.faults.inject import Injector
from rosa_sim.faults.judge import Happened, broken
from rosa_sim.faults.story import Story
from rosa_sim.faults.table import ARM, CLOCK, FAULTS, GATEWAY, LINK, RUNTIME, SENSORS, WORKER, fault

mpl.use("Agg")
import matplotlib.pyplot as plt

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
STORE = ROOT / ".cache" / "faults"
CONFIG = ROOT / "configs" / "pick_place.yaml"
ROBOT = ROOT / "configs" / "robots" / "panda.yaml"
TASK = "pick_and_place"
FIRST_SEED = 910_000
TIMEOUT_S = 45.0  # of a task; an episode without a fault takes about 6 s
RESUME_AFTER_S = 0.3
READY_S = 120.0
# Faults that share a bring-up. A worker that dies more often than once a minute is started later and later, so the
# faults of a group take turns.
GROUPS = ((LINK,), (WORKER, GATEWAY), (SENSORS, ARM, RUNTIME), (CLOCK,))
STOP_AIM_MS = 100.0
MOST_FRUITLESS = 2

Key = tuple[str, int]  # fault, repetition


# -- one cell ---------------------------------------------------------------------------------------------------------


def run_cell(number: int, wanted: list[Key], store: Path) -> None:
    """Measure `wanted` in a cell of its own; each repetition goes to `store` when it is over."""
    os.environ["ROS_DOMAIN_ID"] = str(1 + os.getpid() % 100)  # its own, also when somebody else measures here
    check_signals = end_on_signals()
    for places in GROUPS:
        todo = [key for key in wanted if FAULTS[key[0]].place in places]
        fruitless = 0  # bring-ups in a row that measured nothing
        while todo:
            before = len(todo)
            with tempfile.TemporaryDirectory(prefix=f"rosa-faults-{number}-") as folder:
                try:
                    _run_group(number, places, todo, store, Path(folder), check_signals)
                except (EpisodeError, BringupError) as error:
                    logs = STORE / "logs" / f"cell{number}-{datetime.now().strftime('%H-%M-%S')}"
                    shutil.copytree(Path(folder) / "logs", logs, dirs_exist_ok=True)
                    print(f"cell {number}: {error}; logs in {logs}; the cell is started again", flush=True)
                    fruitless = 0 if len(todo) < before else fruitless + 1
                    if fruitless >= MOST_FRUITLESS:
                        raise


def _run_group(
    number: int, places: tuple[str, ...], todo: list[Key], store: Path, folder: Path, check_signals: Any
) -> None:
    """One bring-up. Takes from `todo` what is done, also when it failed: a repetition that raises is a result too."""
    endpoint = f"tcp://127.0.0.1:{free_ports(1)[0]}"
    document = yaml.safe_load(CONFIG.read_text())
    document["gateway"] = {"bind": endpoint, "metrics_port": 0}
    config = folder / "pick_place.yaml"
    config.write_text(yaml.safe_dump(document, sort_keys=False))
    name = f"cell{number}"
    robot = Robot(config=str(config), robot=str(ROBOT), gateway=endpoint, namespace=name)
    made = plan(robot, set(places) & set(PLACES), folder / "faults")
    with (
        FaultyCell(made, folder / "logs") as cell,
        episodes(name, TASK, alive=lambda: check_signals() or cell.failure(), film=False) as runner,
    ):
        injector = Injector(cell, runner.node)
        story = Story(runner, injector, RESUME_AFTER_S)
        runner.wait_ready(READY_S)
        try:
            while todo:
                _repeat(*todo[0], story, store, todo)
        finally:
            injector.close()


def _repeat(name: str, repetition: int, story: Story, store: Path, todo: list[Key]) -> None:
    """One episode with one fault, at a moment that differs from repetition to repetition."""
    chance = random.Random(f"{name} {repetition}")
    entry = fault(name)
    began_s = time.monotonic()
    kept: dict[str, Any] = {"fault": name, "repetition": repetition}
    try:
        _, seen = story.tell(
            name,
            repetition,
            repetition,
            FIRST_SEED + repetition,
            TIMEOUT_S,
            entry.seconds,
            chance.randint(2, 4),
            chance.uniform(0.0, entry.into_s),
        )
        kept |= {"seen": asdict(seen), "problems": broken(entry, seen)}
    except EpisodeError as error:
        kept["problems"] = [f"the run broke off: {error}"]
        raise
    finally:
        if "problems" in kept:
            kept["took_s"] = round(time.monotonic() - began_s, 2)
            with store.open("a") as file:
                file.write(json.dumps(kept) + "\n")
            todo.pop(0)


# -- all cells --------------------------------------------------------------------------------------------------------


def stored() -> dict[Key, dict[str, Any]]:
    """Everything that has been measured so far."""
    found = {}
    for path in sorted(STORE.glob("*.jsonl")):
        for line in path.read_text().splitlines():
            entry = json.loads(line)
            found[entry["fault"], entry["repetition"]] = entry
    return found


def forget(unwanted: list[Key]) -> None:
    """Measure these anew; the others stay."""
    gone = set(unwanted)
    for path in STORE.glob("*.jsonl"):
        entries = [json.loads(line) for line in path.read_text().splitlines()]
        left = [entry for entry in entries if (entry["fault"], entry["repetition"]) not in gone]
        path.write_text("".join(json.dumps(entry) + "\n" for entry in left))


def measure(wanted: list[Key], cells: int) -> None:
    """Run `cells` cells side by side until everything wanted is stored; prints how far it is."""
    check_signals = end_on_signals()  # a second signal must not interrupt the ending of the cells
    with _children(wanted, cells) as children:
        began_s, before, shown = time.monotonic(), len(stored()), -1
        while any(child.poll() is None for child in children):
            time.sleep(1.0)
            check_signals()
            have = stored()
            done = [have[key] for key in wanted if key in have]
            if len(done) == shown:
                continue
            shown = len(done)
            fresh = len(have) - before
            spent_s = time.monotonic() - began_s
            left = f"{(len(wanted) - shown) * spent_s / fresh / 60:.0f} min left" if fresh else "starting"
            bad = sum(bool(entry["problems"]) for entry in done)
            print(f"{shown:4d} of {len(wanted)} repetitions, {bad} with a broken promise, {left}", flush=True)
        failed = [child.returncode for child in children if child.returncode]
        if failed:
            raise SystemExit(f"a cell ended with status {failed[0]}; run the command again to go on")


@contextmanager
def _children(wanted: list[Key], cells: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """One process per cell, each with its part of what is wanted; ended with this one."""
    had = stored()
    missing = [key for key in wanted if key not in had]
    children = []
    try:
        for number in range(cells):
            part = missing[number::cells]
            if not part:
                continue
            command = [sys.executable, __file__, "--cell", str(number), "--part", json.dumps(part)]
            children.append(subprocess.Popen(command, start_new_session=True))
        yield children
    finally:
        for child in children:
            if child.poll() is None:
                child.send_signal(signal.SIGINT)
        for child in children:
            try:
                child.wait(timeout=30)
            except subprocess.TimeoutExpired:
                os.killpg(
                    child.pid, signal.SIGKILL
                )  # it leads a session of its own; its server's workers follow it


# -- the result -------------------------------------------------------------------------------------------------------


def rows_of(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row per fault."""
    rows = []
    for name, entry in FAULTS.items():
        mine = [one for one in entries if one["fault"] == name]
        seen = [Happened(**one["seen"]) for one in mine if "seen" in one]
        if not mine:
            continue
        detect_s = _numbers([one.detected_s for one in seen])
        holding_s = _numbers([one.holding_s for one in seen if one.detected_s == one.detected_s])
        stop_s = _numbers([max(0.0, one.stop_s) for one in seen if one.stop_s == one.stop_s])
        causes = sorted({one.cause for one in seen if one.cause})
        alerts = sum(bool(one.alerts) for one in seen)
        rows.append(
            {
                "fault": name,
                "promised": entry.promise,
                "repetitions": len(mine),
                "as promised": sum(not one["problems"] for one in mine),
                "detected p50 s": _at(detect_s, 50),
                "detected max s": _at(detect_s, 100),
                "arm holds p50 s": _at(holding_s, 50),
                "arm holds max s": _at(holding_s, 100),
                "stop max ms": _at(1000 * stop_s, 100),
                "cause": ", ".join(causes) or "none",
                "action": ", ".join(sorted({one.action for one in seen if one.action})) or "none",
                "called a human": f"{alerts} of {len(mine)}",
                "late commands": sum(one.late_commands for one in seen),
                "done after it": sum((one.outcome, one.truth) == ("done", "done") for one in seen),
                "episode s": round(float(np.mean([one["took_s"] for one in mine])), 1),
                "holds": all(not one["problems"] for one in mine),
                "detected_s": detect_s.round(4).tolist(),
                "stop_s": stop_s.round(4).tolist(),
            }
        )
    return rows


def _numbers(values: list[float]) -> Any:
    array = np.array(values, dtype=float)
    return array[np.isfinite(array)]


def _at(values: Any, percentile: float) -> float | str:
    return round(float(np.percentile(values, percentile)), 3) if len(values) else "-"


def aims_of(rows: list[dict[str, Any]], repetitions: int) -> list[dict[str, Any]]:
    total = sum(row["repetitions"] for row in rows)
    kept, done = sum(row["as promised"] for row in rows), sum(row["done after it"] for row in rows)
    late = sum(row["late commands"] for row in rows)
    stops = np.array([value for row in rows for value in row["stop_s"]]) * 1000
    p99 = round(float(np.percentile(stops, 99)), 1) if len(stops) else float("nan")
    complete = len(rows) == len(FAULTS) and all(row["repetitions"] >= repetitions for row in rows)
    return [
        {
            "aim": f"every fault, {repetitions} times each, ends as promised",
            "value": f"{kept} of {total}",
            "holds": complete and kept == total,
        },
        {"aim": "commands executed from late results: 0", "value": late, "holds": late == 0},
        {
            "aim": "the task is completed after the fault was lifted, every time",
            "value": f"{done} of {total}",
            "holds": done == total,
        },
        {
            "aim": f"from the decision to an arm that holds: p99 within {STOP_AIM_MS:g} ms",
            "value": p99,
            "holds": bool(p99 <= STOP_AIM_MS),
        },
    ]


def write(
    rows: list[dict[str, Any]], aims: list[dict[str, Any]], problems: list[str], minutes: float
) -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    result = {
        "name": "faults",
        "command": "python benchmarks/" + " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "machine": f"{os.cpu_count()} cores, {platform.platform()}, Python {platform.python_version()}",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "rows": rows,
        "aims": aims,
        "notes": [
            f"{sum(row['repetitions'] for row in rows)} episodes in {minutes:.0f} minutes of measuring; times are as an"
            " observer on the ROS topics sees them. `detected`: fault on to the first decision that names it; `arm"
            " holds`: fault on to an arm that holds from then on; `stop`: from the decision to there, 0 where it held.",
            *problems,
        ],
    }
    (RESULTS / "faults.json").write_text(json.dumps(result, indent=1, allow_nan=False) + "\n")
    draw(rows, RESULTS / "faults.png")
    print(f"wrote {RESULTS.relative_to(ROOT)}/faults.json and .png")


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Every repetition of every fault as a dot: when it was noticed, and when the arm held."""
    figure, axis = plt.subplots(figsize=(8, 0.3 * len(rows) + 1.4))
    for at, row in enumerate(rows):
        detected = np.array(row["detected_s"])
        axis.plot(detected, np.full(len(detected), at), "o", color="tab:blue", markersize=4, alpha=0.6)
        if len(row["stop_s"]) == len(detected):
            axis.plot(
                detected + np.array(row["stop_s"]),
                np.full(len(detected), at),
                "|",
                color="tab:red",
                markersize=9,
            )
        if not len(detected):
            axis.text(0.02, at, "nothing to notice", va="center", fontsize=7, color="grey")
    names = [f"{row['fault']}  {row['as promised']}/{row['repetitions']}" for row in rows]
    axis.set_yticks(range(len(rows)), names, fontsize=8)
    axis.invert_yaxis()
    axis.set(xlabel="s after the fault began", xlim=(0, None), title="Noticed (dot), arm holds (line)")
    axis.grid(axis="x", alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def show(rows: list[dict[str, Any]], aims: list[dict[str, Any]]) -> None:
    columns = (
        "fault",
        "as promised",
        "repetitions",
        "detected p50 s",
        "detected max s",
        "arm holds max s",
        "stop max ms",
    )
    columns += ("called a human", "late commands", "done after it", "episode s")
    print("  ".join([columns[0].ljust(20), *columns[1:]]))
    for row in rows:
        cells = [str(row[column]).rjust(len(column)) for column in columns[1:]]
        print("  ".join([row["fault"].ljust(20), *cells]))
    for aim in aims:
        print(f"{'holds ' if aim['holds'] else 'MISSED'}  {aim['aim']}: {aim['value']}")


def main() -> int:
    args = _arguments()
    if args.cell is not None:
        STORE.mkdir(parents=True, exist_ok=True)
        try:
            run_cell(
                args.cell,
                [(name, int(rep)) for name, rep in json.loads(args.part)],
                STORE / f"cell{args.cell}.jsonl",
            )
        except KeyboardInterrupt:
            return 130
        return 0
    try:
        names = [name for name in FAULTS if name in args.only] if args.only else list(FAULTS)
        for name in args.only:
            fault(name)
    except ContractError as error:
        print(error, file=sys.stderr)
        return 2
    STORE.mkdir(parents=True, exist_ok=True)
    wanted = [(name, repetition) for repetition in range(1, args.repetitions + 1) for name in names]
    if args.again:
        forget(wanted)
    try:
        measure(wanted, args.cells)
    except KeyboardInterrupt:
        print("\nstopped by Ctrl-C; the same command goes on from here")
        return 130
    entries = [entry for key, entry in sorted(stored().items()) if key in set(wanted)]
    rows = rows_of(entries)
    aims = aims_of(rows, args.repetitions)
    show(rows, aims)
    problems = [
        f"{entry['fault']}, repetition {entry['repetition']}: {problem}"
        for entry in entries
        for problem in entry["problems"]
    ]
    print("\n".join(problems))
    if args.only:
        print("with --only, benchmarks/results/ is left as it is")
    else:
        write(rows, aims, problems, sum(entry["took_s"] for entry in entries) / 60 / args.cells)
    return 0 if all(row["holds"] for row in rows) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--repetitions", type=int, default=20, help="of every fault (default 20)")
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME", help="these faults only")
    parser.add_argument("--cells", type=int, default=1, help="cells side by side (default 1)")
    parser.add_argument("--again", action="store_true", help="measure anew what has been measured")
    parser.add_argument("--cell", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--part", default="[]", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.repetitions < 1 or args.cells < 1:
        parser.error("--repetitions and --cells: expected at least 1")
    return args


if __name__ == "__main__":
    raise SystemExit(main())
