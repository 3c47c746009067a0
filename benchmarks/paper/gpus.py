"""GPUs needed for a given rate: fleets whose robots all act at the same rate, under ROSA and fixed partitions.

    python -m benchmarks.paper.gpus [--rate 2.5] [--resume]

P4 at seven sizes, P1 to P3 at three. Fewest servers with which the fleet is expected to act so often: of `rosa` as its
schedule is carried out, with a GPU for each model and with models that take turns on one (`rosa plan --share-gpus`);
of `rosa_published` and of partitions with ROSA's rate control by their schedules, as in the paper's Figure 11. Each is
then executed from both starts, and servers are added until it holds: actions per second, less 2 %, with every component
in time in 99 % of its calls. So all are judged alike. Writes benchmarks/results/gpus.json and .png after each size;
`--resume` keeps those that are there.
"""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks import RESULTS
from benchmarks.conclude import ON_ONE_CORE, print_aims, write
from benchmarks.paper.partitions import placed, servers_for
from benchmarks.paper.published import LIBRARY
from rosa_contract.config.factory import Factory
from rosa_server.scheduler.choosing.choice import choose
from rosa_server.scheduler.placement.servers import kinds_of
from rosa_server.scheduler.placement.to_schedule import build_schedule
from rosa_server.scheduler.problem import problem_from
from rosa_server.scheduler.profiles.catalog import Catalog
from rosa_server.scheduler.profiles.options import Options
from rosa_server.scheduler.search.solve import solve
from rosa_server.simulator.network import Network
from rosa_sim.fleet.baselines import WEIGHTS, partition_counts
from rosa_sim.fleet.execute import execute
from rosa_sim.fleet.scenario import RANDOM, TOGETHER, Scenario, load_scenario
from rosa_sim.fleet.systems import PUBLISHED, READINGS, ROSA, System, executable, fleet_of, without_limits

RESULT = RESULTS / "gpus"
SIZES = {"p4": (8, 16, 24, 32, 48, 64, 96), "p1": (8, 32, 64), "p2": (8, 32, 64), "p3": (8, 32, 64)}
MOST = 200
SHARED = "rosa_shared_gpus"
CATCHES_UP = (
    f"{PUBLISHED}_catch_up"  # the better reading of the two where a fleet keeps to rates that it can reach
)
WORDS = {
    ROSA: "ROSA",
    SHARED: "ROSA, models take turns on GPUs",
    PUBLISHED: "ROSA as published",
    "equal_partition": "equal partition, rate-controlled",
    "weighted_partition": "weighted partition, rate-controlled",
}
WARM_UP_S, SECONDS, VARIATION = 10.0, 30.0, 0.03
NOISE, IN_TIME = 0.02, 0.99
Row = dict[str, Any]
Planned = Callable[[int], tuple[System, ...]]  # by servers; the readings that count


def fewest(suffices: Callable[[int], bool], low: int = 4) -> int | None:
    """The fewest servers that suffice, where more never make it worse; None: not even `MOST`."""
    high = low
    while not suffices(high):
        if high >= MOST:
            return None
        low, high = high + 1, min(MOST, high * 2)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(middle) else (middle + 1, high)
    return low


def needed(workload: str, robots: int, rate_hz: float) -> Row:
    """One size of one fleet."""
    base = without_limits(load_scenario(workload).factory)
    models = len(kinds_of(problem_from(base), share_components=False))
    wanted_hz = robots * rate_hz

    def factory(servers: int) -> Factory:
        return fleet_of(base, robots, servers)

    def rosa(options: Options) -> Planned:
        def planned(servers: int) -> tuple[System, ...]:
            here = factory(servers)
            schedule = choose(problem_from(here), LIBRARY, options, here.policies).schedule
            return (executable(ROSA, here, schedule, LIBRARY, VARIATION),) if schedule.feasible else ()

        return planned

    def published(servers: int) -> tuple[System, ...]:
        here = factory(servers)
        schedule = solve(problem_from(here), LIBRARY, Options.paper())
        if not schedule.feasible:
            return ()
        return tuple(executable(name, here, schedule, LIBRARY, VARIATION) for name in READINGS)

    def partition(name: str) -> Planned:
        def planned(servers: int) -> tuple[System, ...]:
            here = factory(servers)
            problem = problem_from(here)
            catalog = Catalog(problem, LIBRARY, Options.paper(batch_sizes=(1,)))
            kinds = kinds_of(problem, share_components=False)
            found = placed(catalog, problem, rate_hz, partition_counts(kinds, servers, WEIGHTS[name]))
            if found is None:
                return ()
            schedule = build_schedule(catalog, problem, found, {problem.classes[0].name: rate_hz}, name)
            return (executable(CATCHES_UP, here, schedule, LIBRARY, VARIATION),)

        return planned

    def reaches(planned: Planned) -> Callable[[int], bool]:
        return lambda servers: any(system.predicted_hz >= wanted_hz for system in planned(servers))

    row: Row = {"workload": workload, "robots": robots, "actions_hz": wanted_hz}
    ways: dict[str, tuple[Planned, int | None]] = {}
    for name, options, lowest in ((ROSA, Options(), models), (SHARED, Options(share_gpus=True), 1)):
        ways[name] = (rosa(options), fewest(reaches(rosa(options)), lowest))
    ways[PUBLISHED] = (published, fewest(reaches(published), models))
    for name, weight in WEIGHTS.items():
        ways[name] = (partition(name), servers_for(problem_from(factory(models)), rate_hz, weight))
    for name, (planned, servers) in ways.items():
        row |= held(name, planned, servers, wanted_hz)
    return row


def held(name: str, planned: Planned, servers: int | None, wanted_hz: float) -> Row:
    """With how many servers it holds, from those with which it is planned; None: with no number that was tried."""
    row: Row = {f"{name}_planned": servers, name: None}
    for more in range(4):
        best: dict[str, float] = {}
        for system in planned(servers + more) if servers is not None else ():
            runs = [_run(system, start) for start in (RANDOM, TOGETHER)]
            hz, in_time = min(run[0] for run in runs), min(run[1] for run in runs)
            if not best or (in_time >= IN_TIME, hz) > (
                best[f"{name}_in_time"] >= IN_TIME,
                best[f"{name}_hz"],
            ):
                best = {f"{name}_hz": round(hz, 1), f"{name}_in_time": round(in_time, 4)}
        row |= best
        if best and best[f"{name}_hz"] >= (1 - NOISE) * wanted_hz and best[f"{name}_in_time"] >= IN_TIME:
            return {**row, name: servers + more if servers is not None else None}
    return row


def _run(system: System, start: str) -> tuple[float, float]:
    """Actions per second, and the share of calls in time of the component that is late most often."""
    assert system.serving is not None
    scenario = Scenario("", (1,), warm_up_s=WARM_UP_S, seconds=SECONDS, network=Network(0.2))
    outcome = execute(scenario, system.serving.factory, system, start, 0)
    return outcome.executed_hz, min(outcome.meet.values())


def aims_of(rows: Sequence[Row]) -> list[Row]:
    """ROSA needs no more GPUs than anybody else, anywhere, and its plans hold as they are."""
    aims: list[Row] = []
    for mine, others in ((ROSA, (PUBLISHED, *WEIGHTS)), (SHARED, (ROSA,))):
        for other in others:
            shares = [float(row[other]) / float(row[mine]) for row in rows if row[other] and row[mine]]
            never = sum(row[other] is None for row in rows)
            value = f"{min(shares):.2f}x to {max(shares):.2f}x" + f", {never} never hold" * (never > 0)
            holds = min(shares) >= 1 and all(row[mine] for row in rows)
            aims.append(
                {"aim": f"{WORDS[mine]}: no more GPUs than {WORDS[other]}", "value": value, "holds": holds}
            )
    for name in (ROSA, SHARED):
        kept = sum(row[name] == row[f"{name}_planned"] for row in rows)
        aim = f"{WORDS[name]}: as many GPUs as planned hold when they are executed"
        aims.append({"aim": aim, "value": f"{kept} of {len(rows)}", "holds": kept == len(rows)})
    return aims


def plot(rows: Sequence[Row], rate_hz: float, path: Path) -> None:
    """GPUs over actions/s."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(6, 3.8))
    sized = [row for row in rows if row["workload"] == "p4"]
    for name, words in WORDS.items():
        known = [row for row in sized if row[name]]
        axis.plot(
            [row["actions_hz"] for row in known],
            [row[name] for row in known],
            "o-",
            markersize=3,
            label=words,
        )
    axis.set(
        xlabel=f"P4, actions/s of the fleet ({rate_hz:g} of each robot)", ylabel="GPUs needed", ylim=(0, None)
    )
    axis.legend(fontsize=8)
    axis.grid(visible=True, alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rate", type=float, default=2.5, help="actions per second of each robot")
    parser.add_argument("--resume", action="store_true")
    arguments = parser.parse_args()
    logging.getLogger("rosa.link").setLevel(logging.ERROR)
    path = RESULT.with_suffix(".json")
    rows: list[Row] = json.loads(path.read_text())["rows"] if arguments.resume and path.exists() else []
    known = {(row["workload"], row["robots"]) for row in rows}
    notes = [
        "Fewest H200 (derived profiles) with which every robot acts so often, executed from both starts for"
        f" {SECONDS:g} s; `_hz` and `_in_time` are the worse start's.",
    ]
    for workload, sizes in SIZES.items():
        for robots in sizes:
            if (workload, robots) not in known:
                rows.append(needed(workload, robots, arguments.rate))
                print(json.dumps(rows[-1]), flush=True)
                write(path, rows, aims_of(rows), notes, f"--rate {arguments.rate:g}", how=ON_ONE_CORE)
    print_aims(aims_of(rows))
    plot(rows, arguments.rate, RESULT.with_suffix(".png"))


if __name__ == "__main__":
    main()
