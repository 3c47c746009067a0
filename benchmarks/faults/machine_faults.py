"""Lets every fault of machines happen many times, and what Ray Serve's own restart costs beside it.

    make faults CLUSTER=ray [REPEAT=20] [ARGS=--resume]      (or: CLUSTER=serve, Ray Serve's restart)
    .venv-ray/bin/python -m benchmarks.faults.machine_faults [--part rosa] [--repeat 20] [--only NAME] [--resume]
    python -m benchmarks.faults.machine_faults --part pair     (two servers here, robots that know both; no Ray)

Two machines, which are network namespaces of this one, with a node of Ray each (rosa_sim/machines/). Each repetition is
written to benchmarks/results/machine_faults.json at once; `--resume` keeps those that are there and measures what is
missing, so that twenty can be collected over several quiet hours. The logs of a fault that costs more than a call are
kept in .cache/machine_faults/.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import RESULTS, ROOT
from benchmarks.conclude import print_aims, write
from benchmarks.provenance import key_of, measured, measured_at
from rosa_sim.machines.faults import FAULTS, VERSION, Fault, FaultyMachines
from rosa_sim.machines.serve_restart import FAULTS as OF_SERVE
from rosa_sim.machines.serve_restart import complete, once
from rosa_sim.machines.two_servers import CALM_S, TwoServers
from rosa_sim.namespaces import denied

RESULT = RESULTS / "machine_faults"
LOGS = ROOT / ".cache" / "machine_faults"
REPEAT, ROBOTS = 20, 16
ROSA, SERVE, PAIR = "ROSA", "Ray Serve", "ROSA, two servers"
PARTS = {"rosa": ROSA, "serve": SERVE, "pair": PAIR}
MAX_MISSED = {"worker": 1, "gpu": 1, "slow": 1, "link": 1, "raylet": 1, "node": 1, "head": 1}  # by one robot
MAX_MISSED_OF_PAIR = 2
BUSY = (
    2.0  # processes per core that wanted to run: seconds measured beside so many are not those of the server
)
Row = dict[str, Any]
Plan = list[tuple[Row, Callable[[], Row]]]


@contextmanager
def pair_plan(repeat: int) -> Iterator[Plan]:
    """Two servers, robots that know both, and one of them killed in turn."""
    with tempfile.TemporaryDirectory(prefix="rosa-two-servers-") as folder:
        pair: list[TwoServers] = []  # started with the first repetition, as there may be none left to do

        def measure(number: int) -> Row:
            if not pair:
                pair.append(TwoServers(Path(folder), ROBOTS))
            pair[0].all_served(time.monotonic() + CALM_S, ROBOTS)
            loss = asdict(pair[0].lose(number % 2, ROBOTS))
            return loss | {"healed_s": loss["worst_s"]}  # all its robots are served by the other one

        def head(number: int) -> Row:
            return {"part": PAIR, "what": "gateway", "repetition": number}

        try:
            yield [(head(number), partial(_row, partial(measure, number))) for number in range(1, repeat + 1)]
        finally:
            for one in pair:
                one.close()


def plan_of(part: str, repeat: int, only: Sequence[str], stage: FaultyMachines) -> Plan:
    """One repetition of everything, then the next: what is broken off has as many of each."""

    def ours(fault: Fault, number: int) -> Row:
        stage.ready()  # a machine that does not start is no result
        return _row(lambda: asdict(stage.cost(fault, number)))

    def theirs(what: str) -> Row:
        return _row(lambda: asdict(once(what, ROBOTS)))

    def head(what: str, number: int) -> Row:
        return {"part": PARTS[part], "what": what, "repetition": number}

    numbers = range(1, repeat + 1)
    if part == "serve":
        names = [name for name in OF_SERVE if name in only or not only]
        return [(head(name, number), partial(theirs, name)) for number in numbers for name in names]
    faults = [one for one in FAULTS if one.name in only or not only]
    return [(head(one.name, number), partial(ours, one, number)) for number in numbers for one in faults]


def _row(measure: Callable[[], Row]) -> Row:
    """What does not heal is a result too."""
    load = os.getloadavg()[0]
    try:
        found = measure()
    except TimeoutError as error:
        found = {"failed": str(error)[:300]}
    found.pop("robots", None)  # a name of rows elsewhere: it would tell them apart
    return {"version": VERSION, "load": round(load, 1), **found}


def rows_of(repetitions: Sequence[Row]) -> list[Row]:
    """One row for each fault: of all its repetitions."""
    found = []
    for part, what in dict.fromkeys((one["part"], one["what"]) for one in repetitions):
        rows = [one for one in repetitions if (one["part"], one["what"]) == (part, what)]
        well = [one for one in rows if "failed" not in one]
        loads = sorted(one["load"] for one in rows)
        row: Row = {"part": part, "what": what, "times": len(rows), "failed": len(rows) - len(well)}
        if well:
            row |= {
                "first_answer_median_s": round(median(one["median_s"] for one in well), 3),
                "first_answer_worst_s": round(max(one["worst_s"] for one in well), 3),
                "max_missed_by_one_robot": max(one["max_missed"] for one in well),
                "times_with_more_than_one": sum(one["max_missed"] > 1 for one in well),
                "missed_by_others": sum(one.get("others_missed", 0) for one in well),
                "robots_lost": sum(one.get("lost", 0) for one in well),
                "healed_median_s": round(median(one["healed_s"] for one in well), 2),
                "healed_worst_s": round(max(one["healed_s"] for one in well), 2),
            }
        found.append(row | {"load": [loads[0], median(loads), loads[-1]]})
    return found


def aims_of(rows: Sequence[Row]) -> list[Row]:
    """What is wanted, and what came of it; nothing of what was not measured."""
    ours = {row["what"]: row for row in rows if row["part"] == ROSA and row["times"] > row["failed"]}
    theirs = {row["what"]: row for row in rows if row["part"] == SERVE and row["times"] > row["failed"]}
    aims = []
    if rows:
        lowest = min(row["times"] for row in rows)
        missing = [one.name for one in FAULTS if one.name not in ours]
        missing += [f"{SERVE}: {name}" for name in OF_SERVE if name not in theirs]
        missing += [PAIR] if all(row["part"] != PAIR for row in rows) else []
        value = f"{lowest} of each of {len(rows)}" + (f"; missing: {', '.join(missing)}" if missing else "")
        aims.append(
            {
                "aim": f"{REPEAT} repetitions of each fault, and of Serve's restart",
                "value": value,
                "holds": lowest >= REPEAT and not missing,
            }
        )
    for what, limit in MAX_MISSED.items():
        if what in ours:
            row = ours[what]
            highest, often = row["max_missed_by_one_robot"], row["times_with_more_than_one"]
            aims.append(
                {
                    "aim": f"{what}: no robot misses more than {limit} deadline{'s'[: limit > 1]}",
                    "value": f"{highest}" + (f", in {often} of {row['times']}" if often else ""),
                    "holds": highest <= limit,
                }
            )
    for row in rows:
        if row["part"] == PAIR and row["times"] > row["failed"]:
            highest = row["max_missed_by_one_robot"]
            aims.append(
                {
                    "aim": f"gateway, robots that know two: none misses more than {MAX_MISSED_OF_PAIR} deadlines",
                    "value": f"{highest}, {row['robots_lost']} robots lost, {row['missed_by_others']} calls of others",
                    "holds": highest <= MAX_MISSED_OF_PAIR
                    and not row["robots_lost"]
                    and not row["missed_by_others"],
                }
            )
    if ours:
        others = sum(row["missed_by_others"] for row in ours.values())
        lost = sum(row["robots_lost"] for row in ours.values()) + sum(row["failed"] for row in ours.values())
        aims += [
            {"aim": "nobody else misses any", "value": f"{others} calls", "holds": others == 0},
            {
                "aim": "no robot is lost, and everything heals",
                "value": "all" if not lost else f"{lost} times not",
                "holds": not lost,
            },
        ]
    for what in OF_SERVE:
        if what in ours and what in theirs:
            mine, serves = ours[what]["healed_median_s"], theirs[what]["healed_median_s"]
            aims.append(
                {
                    "aim": f"{what}: as before sooner than with Ray Serve's own restart",
                    "value": f"{mine:.1f} s, Serve {serves:.1f} s (medians)",
                    "holds": mine < serves,
                }
            )
    return aims


def save(repetitions: Sequence[Row], path: Path = RESULT) -> None:
    """Result file and plot."""
    rows = rows_of(repetitions)
    cores = os.cpu_count() or 1
    busy = sum(one["load"] > BUSY * cores for one in repetitions)
    notes = [
        f"{ROBOTS} robots on the first machine and 4 on the second, SLO 500 ms; `max_missed` counts until all is as"
        " before. `healed`: until a worker is ready again, or back; of two servers, until each robot is answered.",
        f"{busy} of {len(repetitions)} repetitions began at a load above {BUSY * cores:g}: their seconds are those of a"
        " busy machine. A load column has the lowest, the median and the highest.",
        measured_at(repetitions),
    ]
    how = ", two machines in network namespaces"
    every = [dict(one) for one in repetitions]
    write(path.with_suffix(".json"), rows, aims_of(rows), notes, how=how, repetitions=every)
    plot(rows, path.with_suffix(".png"))


def plot(rows: Sequence[Row], path: Path) -> None:
    """Until the first answer in time, and until all is as before: median, and the worst."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    shown = [row for row in reversed(rows) if "healed_worst_s" in row]
    labels = [row["what"] if row["part"] == ROSA else f"{row['what']} ({row['part']})" for row in shown]
    figure, axes = pyplot.subplots(1, 2, figsize=(10, 4), sharey=True)
    for axis, name, title in zip(
        axes, ("first_answer", "healed"), ("first answer in time, s", "as before, s"), strict=True
    ):
        axis.barh(labels, [row[f"{name}_worst_s"] for row in shown], color="0.8", label="worst")
        axis.barh(labels, [row[f"{name}_median_s"] for row in shown], color="0.4", label="median")
        axis.set_title(title, fontsize=10)
        axis.set_xscale("symlog", linthresh=1.0)
        axis.tick_params(labelsize=8)
    axes[0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


def collected(repetitions: Sequence[Row], plan: Plan, path: Path = RESULT) -> list[Row]:
    """Measure what is missing of a plan, or is of an older version, and keep each repetition at once."""
    planned = {key_of(head) for head, _ in plan}
    others = [one for one in repetitions if key_of(one) not in planned]
    rows = [*repetitions]
    for row, known in measured(plan, repetitions, lambda one: one.get("version", 1) < VERSION):
        rows = [*others, *known]
        print(json.dumps(row), flush=True)
        save(rows, path)
    return rows


def kept(path: Path = RESULT) -> list[Row]:
    """The repetitions of earlier runs."""
    file = path.with_suffix(".json")
    found: list[Row] = json.loads(file.read_text())["repetitions"] if file.exists() else []
    return found


def main() -> int:
    """Exit status 1 when an aim is missed, 2 where nothing can be measured."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--part",
        choices=PARTS,
        default="rosa",
        help="ROSA's faults on Ray, Ray Serve's own restart, or one of two servers killed of which robots know both",
    )
    parser.add_argument("--repeat", type=int, default=REPEAT)
    parser.add_argument("--only", action="append", choices=[one.name for one in FAULTS], default=[])
    parser.add_argument(
        "--resume", action="store_true", help="keep what was measured; else this part begins anew"
    )
    arguments = parser.parse_args()
    if arguments.part != "pair" and (why := denied()):
        print(f"this needs network namespaces, which need root and `ip`: {why}", file=sys.stderr)
        return 2
    if arguments.part == "serve" and not complete():
        print("Ray Serve is not complete here: make faults CLUSTER=serve", file=sys.stderr)
        return 2
    before = kept()
    if not arguments.resume:
        named = arguments.only or None
        before = [
            one
            for one in before
            if one["part"] != PARTS[arguments.part] or (named is not None and one["what"] not in named)
        ]
    if arguments.part == "pair":
        with pair_plan(arguments.repeat) as plan:
            rows = collected(before, plan)
    else:
        with FaultyMachines(ROBOTS, LOGS) as stage:
            rows = collected(before, plan_of(arguments.part, arguments.repeat, arguments.only, stage))
    aims = aims_of(rows_of(rows))
    for row in rows_of(rows):
        print(json.dumps(row))
    print_aims(aims)
    return 0 if all(aim["holds"] for aim in aims) else 1


if __name__ == "__main__":
    raise SystemExit(main())
