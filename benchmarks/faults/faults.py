"""Injects every fault into a whole running cell, and compares what happened with what is promised.

    make faults   (or: python -m benchmarks.faults.faults [--repetitions 20] [--only NAME ...] [--cells 2] [--again])

Each repetition is one pick-and-place episode with the trained models; the fault comes in its middle. Results are stored
in .cache/faults/ at once, so an interrupted run continues where it was; `--again` measures everything again.
"""

from __future__ import annotations

import argparse
import json
import os
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
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from benchmarks import ROOT
from benchmarks.faults.fault_table import added, aims_of, measured_at, rows_of, show, taken, write
from benchmarks.provenance import commit
from rosa_client.bringup.bringup import end_on_signals
from rosa_client.bringup.graph import Robot, robot_graph
from rosa_client.bringup.supervisor import BringupError
from rosa_contract.errors import ContractError
from rosa_sim.controller.graph import CELL, behind_ros2_control
from rosa_sim.demo.episodes import EpisodeError, episodes
from rosa_sim.demo.fault_story import FaultStory
from rosa_sim.faults.cell import PLACES, FaultyCell, set_up
from rosa_sim.faults.inject import Injector
from rosa_sim.faults.judge import broken
from rosa_sim.faults.table import (
    ARM,
    CLOCK,
    CONTROLLER,
    FAULTS,
    GATEWAY,
    LINK,
    RUNTIME,
    SENSORS,
    WORKER,
    fault,
)
from rosa_sim.ports import free_port

STORE = ROOT / ".cache" / "faults"
CONFIG = ROOT / "configs" / "pick_place.yaml"
ROBOT = ROOT / "configs" / "robots" / "panda.yaml"
CONTROLLED = ROOT / "configs" / "robots" / "panda_ros2_control.yaml"
TASK = "pick_and_place"
FIRST_SEED = 910_000
TIMEOUT_S = 45.0  # of a task; an episode without a fault takes about 6 s
RESUME_AFTER_S = 0.3
READY_S = 120.0
# Faults that share a bring-up. A worker that dies more often than once a minute is restarted with growing delays, so
# the faults of a group take turns.
GROUPS = ((LINK,), (WORKER, GATEWAY), (SENSORS, ARM, RUNTIME), (CONTROLLER,), (CLOCK,))
MAX_FRUITLESS = 2

Key = tuple[str, int]  # fault, repetition


# -- one cell ---------------------------------------------------------------------------------------------------------


def run_cell(number: int, wanted: list[Key], store: Path) -> None:
    """Measure `wanted` in a cell of its own; each repetition goes to `store` when it is over."""
    os.environ["ROS_DOMAIN_ID"] = str(
        1 + os.getpid() % 100
    )  # its own, also beside other measurements on this machine
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
                    if fruitless >= MAX_FRUITLESS:
                        raise


def _run_group(
    number: int, places: tuple[str, ...], todo: list[Key], store: Path, folder: Path, check_signals: Any
) -> None:
    """One bring-up. Removes from `todo` what was measured, also a repetition that raised: that is a result too."""
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    document = yaml.safe_load(CONFIG.read_text())
    document["gateway"] = {"bind": endpoint, "metrics_port": 0}
    config = folder / "pick_place.yaml"
    config.write_text(yaml.safe_dump(document, sort_keys=False))
    name = f"cell{number}"
    controlled = CONTROLLER in places
    robot_file = CONTROLLED if controlled else ROBOT
    robot = Robot(config=str(config), robot=str(robot_file), gateway=endpoint, namespace=name)
    made = set_up(robot, set(places) & set(PLACES), folder / "faults")
    with (
        FaultyCell(made, folder / "logs", graph=behind_ros2_control if controlled else robot_graph) as cell,
        episodes(
            name,
            TASK,
            alive=lambda: check_signals() or cell.bringup.failure(),
            video=False,
            scene=CELL if controlled else "arm_node",
        ) as runner,
    ):
        injector = Injector(cell, runner.node)
        story = FaultStory(runner, injector, RESUME_AFTER_S)
        runner.wait_ready(READY_S)
        try:
            while todo:
                _repeat(*todo[0], story, store, todo)
        finally:
            injector.close()


def _repeat(name: str, repetition: int, story: FaultStory, store: Path, todo: list[Key]) -> None:
    """One episode with one fault, at a moment that differs from repetition to repetition."""
    chance = random.Random(f"{name} {repetition}")
    entry = fault(name)
    began_s, waited_s = time.monotonic(), cores_short_s()
    kept: dict[str, Any] = {"fault": name, "repetition": repetition, "commit": commit()}
    try:
        _, seen = story.run(
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
        kept["problems"] = [f"the run was interrupted: {error}"]
        raise
    finally:
        if "problems" in kept:
            kept["took_s"] = round(time.monotonic() - began_s, 2)
            kept["cores_short"] = round((cores_short_s() - waited_s) / kept["took_s"], 3)
            with store.open("a") as file:
                file.write(json.dumps(kept) + "\n")
            todo.pop(0)


def cores_short_s() -> float:
    """Total time for which some process of this machine has waited for a core, s; 0 where Linux does not count it."""
    try:
        return int(Path("/proc/pressure/cpu").read_text().split("total=")[1].split()[0]) / 1e6
    except OSError:
        return 0.0


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
    """Delete the stored results of these, so that they are measured again."""
    gone = set(unwanted)
    for path in STORE.glob("*.jsonl"):
        entries = [json.loads(line) for line in path.read_text().splitlines()]
        left = [entry for entry in entries if (entry["fault"], entry["repetition"]) not in gone]
        path.write_text("".join(json.dumps(entry) + "\n" for entry in left))


def measure(wanted: list[Key], cells: int) -> None:
    """Run `cells` cells side by side until everything wanted is stored; prints the progress."""
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
            raise SystemExit(f"a cell ended with status {failed[0]}; run the command again to continue")


@contextmanager
def _children(wanted: list[Key], cells: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """One process per cell, each with its part of what is wanted; they end with this one."""
    had = stored()
    missing = [key for key in wanted if key not in had]
    children = []
    try:
        for number in range(cells):
            part = missing[number::cells]
            if not part:
                continue
            command = [
                sys.executable,
                "-m",
                "benchmarks.faults.faults",
                "--cell",
                str(number),
                "--part",
                json.dumps(part),
            ]
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


# -- the command ----------------------------------------------------------------------------------------------------


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
        print("\nstopped by Ctrl-C; the same command continues from here")
        return 130
    entries = [entry for key, entry in sorted(stored().items()) if key in set(wanted)]
    rows = rows_of(entries)
    aims = aims_of(rows, args.repetitions)
    show(rows, aims)
    problems = [
        f"{entry['fault']}, repetition {entry['repetition']}: {problem} (for {entry['cores_short']:.0%} of it"
        " processes waited for a core)"
        for entry in entries
        for problem in entry["problems"]
    ]
    minutes = sum(entry["took_s"] for entry in entries) / 60 / args.cells
    problems += measured_at(entries)
    print("\n".join(problems))
    if args.only and not args.add:
        print("with --only, benchmarks/results/ is not changed; --add replaces the rows of these faults")
    elif args.add:
        rows, notes = added(rows, problems, minutes)
        write(rows, aims_of(rows, args.repetitions), notes)
    else:
        write(rows, aims, [taken(rows, minutes), *problems])
    return 0 if all(row["holds"] for row in rows) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--repetitions", type=int, default=20, help="of every fault (default 20)")
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME", help="these faults only")
    parser.add_argument(
        "--add",
        action="store_true",
        help="with --only: replace the rows of these faults in the stored result",
    )
    parser.add_argument("--cells", type=int, default=1, help="cells side by side (default 1)")
    parser.add_argument("--again", action="store_true", help="measure again what has been measured")
    parser.add_argument("--cell", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--part", default="[]", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.repetitions < 1 or args.cells < 1:
        parser.error("--repetitions and --cells: expected at least 1")
    if args.add and not args.only:
        parser.error("--add: goes with --only NAME ...")
    return args


if __name__ == "__main__":
    raise SystemExit(main())
