"""How long the scheduler takes and how near to optimal it is, from 8 to 256 servers.

    python -m benchmarks.scheduling.scheduler [--repeat 3] [--small]
    python -m benchmarks.scheduling.scheduler --admission   # admission and removal at 1,000 robots only; writes nothing

Factories are made up: classes with 1 to 4 components, action periods of 100 to 800 ms, SLOs of System 1 of 200 to
600 ms, weights of 1 to 4, all on the derived H200 profiles; every task has a minimum rate of 0.2 Hz. `rosa` is `rosa
plan` with its defaults, `paper` the scheduler as published. `rosa, no minimum rates` is `rosa` on the same factories
without min_action_rate_hz, where every task has a fair share instead. The gap is to the relaxation of
`search/relaxation.py`, an upper bound that knows minimum rates and no fair shares: the true gap is smaller.
`fair_gap` is what the bound itself loses when every fair share is a minimum rate too.
After the solve robots are admitted one by one, class after class, and leave in the order in which they came; the same
robots several times, which tells the work from the machine's noise. `_ms` are wall times over all that: the median,
the 99th percentile, the worst. `cpu_ms_max` is the worst CPU time of the thread, and `cpu_ms_each_max` that of the most
laborious admission, taken as the median of its repeats.
`objective_full` is equation (1) with all of them, `objective_after` when the last has left: admission is no ratchet
if it is that of the plan.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import time
from dataclasses import replace
from datetime import UTC, datetime
from math import ceil
from random import Random
from statistics import median

from benchmarks import RESULTS
from rosa_server.scheduler.placement.packing import balanced
from rosa_server.scheduler.placement.schedule import Schedule
from rosa_server.scheduler.problem import Need, Problem, TaskClass
from rosa_server.scheduler.profiles.catalog import Catalog
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_server.scheduler.profiles.options import Options
from rosa_server.scheduler.running.admission import admit
from rosa_server.scheduler.running.deployment import audit, deploy
from rosa_server.scheduler.running.removal import remove
from rosa_server.scheduler.search.relaxation import largest_pool, upper_bound
from rosa_server.scheduler.search.rounding import fair_floors
from rosa_server.scheduler.search.solve import solve

RESULT = RESULTS / "scheduler"
LIBRARY = ProfileLibrary()
MINIMUM_HZ = 0.2
VARIANTS = {  # options, and the min_action_rate_hz of every task
    "rosa": (Options(), MINIMUM_HZ),
    "rosa, no minimum rates": (Options(), 0.0),
    "paper": (Options.paper(), MINIMUM_HZ),
}
NOTE = (
    "`rosa` is `rosa plan` with its defaults, `paper` the scheduler as published. Without minimum rates every task has"
    " a fair share instead, of which the bound knows nothing: `fair_gap` is what the bound itself loses to fair shares."
)
OURS = ("rosa", "rosa, no minimum rates")
SIZES = ((8, 64, 1, 0.2), (64, 1000, 10, 2.0), (256, 5000, 20, 20.0))  # servers, robots, classes, aim in s
ADMISSION_AIM_MS, GAP_AIM = 5.0, 0.05
ADMISSIONS, REPEATS = 50, 5


def made_up(servers: int, robots: int, classes: int, seed: int, minimum_hz: float = MINIMUM_HZ) -> Problem:
    """A factory whose load the servers can carry at a part of the robots' fastest rates."""
    rng = Random(seed)
    made = []
    for index, count in enumerate(balanced(robots, classes)):
        needs = [
            Need(
                "system1",
                "nvidia/GR00T-N1.6-3B",
                rng.choice([200.0, 300.0, 400.0, 600.0]),
                calls_per_action=1.0,
            )
        ]
        if rng.random() < 0.5:
            ratio = rng.choice([0.05, 0.1, 0.2])
            needs.append(Need("system2", "Qwen2.5-VL-7B-Instruct", 2000.0, calls_per_action=ratio))
        if rng.random() < 0.5:
            needs.append(Need("safety", "Qwen2.5-VL-3B-Instruct", 500.0, freq_hz=rng.choice([0.5, 1.0])))
        if rng.random() < 0.7:
            needs.append(Need("monitor", "Qwen2.5-VL-7B-Instruct", 2000.0, freq_hz=rng.choice([0.2, 0.5])))
        action_s = rng.choice([0.1, 0.2, 0.4, 0.8])
        made.append(
            TaskClass(f"task{index}", count, action_s, tuple(needs), rng.choice([1.0, 2.0, 4.0]), minimum_hz)
        )
    return Problem(servers, "NVIDIA H200", tuple(made))


def measure(size: tuple[int, int, int, float], seed: int, name: str) -> dict[str, object]:
    servers, robots, classes, aim_s = size
    options, minimum_hz = VARIANTS[name]
    problem = made_up(servers, robots, classes, seed, minimum_hz)
    begin = time.perf_counter()
    schedule = solve(problem, LIBRARY, options, time.monotonic)
    solve_s = time.perf_counter() - begin
    row: dict[str, object] = {
        "scheduler": name,
        "servers": servers,
        "robots": robots,
        "classes": classes,
        "seed": seed,
        "solve_s": solve_s,
        "aim_s": aim_s,
        "feasible": schedule.feasible,
    }
    if not schedule.feasible:
        return {**row, "causes": [refusal.cause for refusal in schedule.reasons]}
    begin = time.perf_counter()
    bound = upper_bound(problem, LIBRARY, options)
    assert bound is not None
    row["bound_s"] = time.perf_counter() - begin
    row["objective"], row["bound"] = schedule.objective, bound
    row["gap"] = 1 - schedule.objective / bound
    row["fair_gap"] = 1 - fair_bound(problem, options) / bound
    return {**row, **come_and_go(problem, schedule, options)}


def fair_bound(problem: Problem, options: Options) -> float:
    """The upper bound where every task has its fair share as a minimum rate too."""
    pool = largest_pool(Catalog(problem, LIBRARY, options), problem)
    assert pool is not None
    floors = fair_floors(pool)
    classes = tuple(replace(cls, min_rate_hz=floors[cls.name]) for cls in problem.classes)
    bound = upper_bound(replace(problem, classes=classes), LIBRARY, options)
    assert bound is not None
    return bound


def come_and_go(problem: Problem, schedule: Schedule, options: Options) -> dict[str, object]:
    """Wall and CPU time of admissions and of the removals that undo them, first come, first to leave."""
    planned = deploy(problem, Catalog(problem, LIBRARY, options), schedule)
    gc.collect()
    gc.freeze()  # as the server does before it serves: a full collection of what solving left takes 30 ms
    joins, leaves = Timed(), Timed()
    for _ in range(REPEATS):
        deployment, slots = planned, []
        for index in range(ADMISSIONS):
            task = problem.classes[index % len(problem.classes)].name
            with joins:
                answer = admit(deployment, task)
            deployment = answer.deployment
            slots += [answer.slot] if answer.admitted else []
        assert not audit(deployment), audit(deployment)
        full = deployment.schedule.objective
        for slot in slots:
            with leaves:
                deployment = remove(deployment, slot)
        assert not audit(deployment), audit(deployment)
    gc.unfreeze()
    return {
        **joins.row("admission"),
        "admitted": f"{len(slots)} of {ADMISSIONS}",
        **leaves.row("removal"),
        "objective_full": full,
        "objective_after": deployment.schedule.objective,
    }


class Timed:
    """What a block took, each time it ran: a context manager."""

    def __init__(self) -> None:
        self.wall_s: list[float] = []
        self.cpu_s: list[float] = []

    def __enter__(self) -> None:
        self._begin = time.perf_counter(), time.thread_time()

    def __exit__(self, *_: object) -> None:
        wall_s, cpu_s = self._begin
        self.cpu_s.append(time.thread_time() - cpu_s)
        self.wall_s.append(time.perf_counter() - wall_s)

    def row(self, name: str) -> dict[str, object]:
        """Milliseconds, under the names of the result file; nothing when the block never ran."""
        if not self.wall_s:
            return {}
        count = len(self.cpu_s) // REPEATS  # blocks a round; the same one comes again in every round
        ordered = sorted(self.wall_s)
        return {
            f"{name}_ms_p50": 1000 * median(ordered),
            f"{name}_ms_p99": 1000 * ordered[ceil(0.99 * len(ordered)) - 1],
            f"{name}_ms_max": 1000 * ordered[-1],
            f"{name}_cpu_ms_max": 1000 * max(self.cpu_s),
            f"{name}_cpu_ms_each_max": 1000 * max(median(self.cpu_s[i::count]) for i in range(count)),
        }


def aims_of(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    aims: list[dict[str, object]] = []
    ours = [row for row in rows if row["scheduler"] in OURS]
    for servers, robots, classes, aim_s in SIZES:
        mine = [row for row in ours if row["servers"] == servers]
        if not mine:
            continue
        size = f"{servers} servers, {robots} robots, {classes} classes"
        slowest = max(float(str(row["solve_s"])) for row in mine)
        aims.append(
            {"aim": f"{size}: solved in {aim_s:g} s", "value": f"{slowest:.3f} s", "holds": slowest <= aim_s}
        )
        for name in OURS:
            gap, fair = max(
                (float(str(row.get("gap", 1.0))), float(str(row.get("fair_gap", 0.0))))
                for row in mine
                if row["scheduler"] == name
            )
            aim = f"{size}, {name}: gap to the bound under 5 %"
            asked = f", {fair:.1%} asked for by fair shares" if fair >= 0.001 else ""
            aims.append({"aim": aim, "value": f"{gap:.1%}{asked}", "holds": gap < GAP_AIM})
        if robots == 1000:
            for name, key, words in (
                ("admission", "ms_p50", "median wall time"),
                ("admission", "ms_p99", "99th percentile of wall time"),
                ("admission", "cpu_ms_each_max", "CPU time of the most laborious one, median of its repeats"),
                ("admission", "cpu_ms_max", "worst CPU time"),
                ("admission", "ms_max", "worst wall time, machine shared with other jobs"),
                ("removal", "cpu_ms_each_max", "CPU time of the most laborious one, median of its repeats"),
                ("removal", "cpu_ms_max", "worst CPU time"),
                ("removal", "ms_max", "worst wall time, machine shared with other jobs"),
            ):
                worst = max(float(str(row.get(f"{name}_{key}", 1e9))) for row in mine)
                aims.append(
                    {
                        "aim": f"{name} under {ADMISSION_AIM_MS:g} ms at 1,000 robots, {words}",
                        "value": f"{worst:.2f} ms",
                        "holds": worst < ADMISSION_AIM_MS,
                    }
                )
    return aims


def plot(rows: list[dict[str, object]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.4))
    for name in dict.fromkeys(str(row["scheduler"]) for row in rows):
        mine = [row for row in rows if row["scheduler"] == name and row["feasible"]]
        left.plot(
            [row["robots"] for row in mine], [row["solve_s"] for row in mine], "o", label=name, alpha=0.7
        )
        right.plot(
            [row["robots"] for row in mine],
            [100 * float(str(row["gap"])) for row in mine],
            "o",
            label=name,
            alpha=0.7,
        )
    left.plot([s[1] for s in SIZES], [s[3] for s in SIZES], "k--", label="aim")
    right.axhline(100 * GAP_AIM, color="k", linestyle="--")
    for axes, label in ((left, "solve time, s"), (right, "gap to the upper bound, %")):
        axes.set_xscale("log")
        axes.set_xlabel("robots")
        axes.set_ylabel(label)
    left.set_yscale("log")
    left.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(RESULT.with_suffix(".png"), dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeat", type=int, default=3, help="made-up factories per size")
    parser.add_argument("--small", action="store_true", help="leave out the largest size")
    parser.add_argument("--admission", action="store_true", help="only admission and removal; writes nothing")
    args = parser.parse_args()
    load = os.getloadavg()[0]  # of other jobs: what wall times here are worth
    solve(made_up(8, 8, 1, 0), LIBRARY)  # profiles are read and OR-Tools is loaded before anything is timed
    sizes = SIZES[1:2] if args.admission else SIZES[:2] if args.small else SIZES
    rows = []
    for size in sizes:
        for seed in range(args.repeat):
            for name, (options, minimum_hz) in VARIANTS.items():
                if args.admission:
                    problem = made_up(*size[:3], seed, minimum_hz)
                    schedule = solve(problem, LIBRARY, options, time.monotonic)
                    row = {"scheduler": name, "seed": seed, "objective": schedule.objective}
                    row |= come_and_go(problem, schedule, options)
                else:
                    row = measure(size, seed, name)
                rows.append(row)
                print({k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()}, flush=True)
    if args.admission:
        return
    aims = aims_of(rows)
    for aim in aims:
        print("holds " if aim["holds"] else "MISSED", aim["aim"], "->", aim["value"])
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    result = {
        "name": "scheduler",
        "command": "python -m benchmarks.scheduling.scheduler",
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{platform.machine()}, 2 shared cores, one used, load {load:.1f} before the run",
        "notes": [NOTE],
        "rows": rows,
        "aims": aims,
    }
    RESULT.with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    plot(rows)


if __name__ == "__main__":
    main()
