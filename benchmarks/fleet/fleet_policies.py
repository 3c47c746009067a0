"""How a schedule is carried out: the aims of the policies on P4, and what each of them is worth.

    python -m benchmarks.fleet.fleet_policies [--seeds 2] [--seconds 40] [--only p4/96/rosa,mix4/64/rosa]

Everything is executed by the fleet simulator with the shipped H200 profiles (docs/fleet.md). Writes
benchmarks/results/fleet_policies.json after each row, and .png at the end. Rows of earlier runs stay until they are
measured again; each says at which commit it was. `--resume` keeps those of the present one, `--only` all others.
"""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import RESULTS
from benchmarks.conclude import ON_ONE_CORE, print_aims, write
from benchmarks.provenance import code, measured, measured_at, name_of
from rosa_contract.config.policies import FREE, PLANNED, ROUTED, Policies
from rosa_contract.config.policies import PUBLISHED as AS_PUBLISHED
from rosa_contract.config.tasks import AHEAD, IN_TURN
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_server.serving.core.queueing.actions import Reply
from rosa_server.simulator.network import Network
from rosa_sim.fleet.execute import execute
from rosa_sim.fleet.scenario import STARTS, Joined, LostServer, Scenario, load_scenario
from rosa_sim.fleet.systems import BASELINES, READINGS, ROSA, fleet_of, system_of, without_limits

RESULT = RESULTS / "fleet_policies"
LIBRARY = ProfileLibrary()
AIMS_HZ = {8: 29.0, 16: 57.0, 32: 110.0, 64: 175.0, 96: 195.0}
MIN_MEET, NOISE, MAX_JITTER_LOSS, BACK_S = 0.99, 0.02, 0.05, 10.0
FACTORIES = ("p1", "p2", "p3", "p4", "mix2", "mix4")
MIXES = ("mix2", "mix4")
MAX_PLANNED_AHEAD = 64  # robots
JOINS = {
    "p1": "pick_and_place_action_only",
    "p4": "assemble_kit",
    "mix4": "assemble_kit",
}  # scenario -> who joins
LOST_S, GONE_S = 20.0, 5.0  # when a server is lost, and how long until it is warm again
WITHOUT = {
    "all of them": Policies(),
    "without one queue": Policies(queues=ROUTED),
    "without larger batches": Policies(batches=PLANNED),
    "without continuous batching": Policies(continuous=False),
    "without a limit of calls at a time": Policies(at_once=64),
    "without phases": Policies(phases=FREE),
    "without catching up": Policies(catch_up=0.0),
    "without adaptive rates": Policies(rates=PLANNED),
}
NOTE = "Least meet rate over seeds; service times vary by 3 %, 0.5 ms of network each way."
Row = dict[str, Any]


class Gaps:
    """The longest time without an action model's answer of any robot, after a moment."""

    def __init__(self, after_s: float) -> None:
        self._after_s = after_s
        self._last_s: dict[str, float] = {}
        self.longest_s = 0.0

    def __call__(self, now_s: float, action: Any) -> None:
        if isinstance(action, Reply) and action.call.component == "system1" and action.status == "ok":
            robot = action.call.robot_id
            if now_s >= self._after_s:
                waited_s = now_s - max(self._after_s, self._last_s.get(robot, self._after_s))
                self.longest_s = max(self.longest_s, waited_s)
            self._last_s[robot] = now_s


def one(name: str, robots: int, start: str, arguments: argparse.Namespace, **changes: Any) -> Row:
    """One system with one size of the fleet: means over seeds, the least meet rate of any component in any of them."""
    system_name, policies = changes.pop("system", ROSA), changes.pop("policies", None)
    planning = changes.pop("planning", IN_TURN)
    loaded = load_scenario(name)
    factory = without_limits(fleet_of(loaded.factory, robots))
    tasks = {
        name: replace(task, pipeline=replace(task.pipeline, planning=planning))
        for name, task in factory.tasks.items()
    }
    factory = replace(factory, tasks=tasks)
    system = system_of(
        system_name, factory if policies is None else replace(factory, policies=policies), LIBRARY, 0.03
    )
    if system.serving is None:
        return {"refused": system.refused, "qualified_hz": 0.0}
    scenario: Scenario = replace(loaded.scenario, seconds=arguments.seconds, **changes)
    gaps = [Gaps(LOST_S) for _ in range(arguments.seeds)]
    runs = [
        execute(scenario, factory, system, start, seed, None, gaps[seed]) for seed in range(arguments.seeds)
    ]
    meets = {part: min(run.meet[part] for run in runs) for part in runs[0].meet}
    return {
        "planned_hz": round(system.schedule.action_throughput_hz, 2),
        "predicted_hz": round(system.predicted_hz, 2),
        "qualified_hz": round(sum(run.qualified_hz for run in runs) / len(runs), 2),
        "meet": {part: round(share, 4) for part, share in meets.items()},
        "p99_ms": {part: round(max(run.p99_ms[part] for run in runs), 1) for part in meets},
        "gpu": [round(share, 2) for share in runs[0].utilisation.values()],
        "longest_gap_s": round(max(gap.longest_s for gap in gaps), 2),
        "refused": "",
    }


Planned = tuple[Row, Callable[[], Row]]  # what tells a row from the others, and what measures the rest of it


def plan_of(arguments: argparse.Namespace) -> Iterator[Planned]:
    """Every run, with what it is for under `part`."""

    def row(part: str, name: str, robots: int, start: str, what: str = "", **changes: Any) -> Planned:
        head: Row = {"part": part, **({"what": what} if what else {})}
        head |= {"scenario": name, "system": changes.get("system", ROSA), "robots": robots, "start": start}
        return head, partial(one, name, robots, start, arguments, **changes)

    for start in STARTS:
        for robots in AIMS_HZ:
            for system in (ROSA, *READINGS, *BASELINES):
                yield row("systems", "p4", robots, start, system=system)
        for name in FACTORIES[:3] + FACTORIES[4:]:
            for robots in (8, 16, 32, 64, *((96,) if name in MIXES else ())):
                yield row("factories", name, robots, start)
        for robots in (32, 64):
            for words, policies in WITHOUT.items():
                yield row("ablation", "p4", robots, start, words, policies=policies)
            yield row("ablation", "p4", robots, start, "none of them", policies=AS_PUBLISHED)
    for robots in AIMS_HZ:
        if robots <= MAX_PLANNED_AHEAD:
            yield row("planning ahead", "p4", robots, "random", planning=AHEAD)
        yield row("jitter", "p4", robots, "random", network=Network(0.5, 5.0))
        for component in ("system1", "system2", "safety", "monitor"):
            lost = (LostServer(component, LOST_S, None if component == "system1" else GONE_S),)
            yield row("lost", "p4", robots, "random", component, lost_servers=lost)
    for name, task in JOINS.items():
        yield row("joined", name, 16, "random", joined=(Joined(task, 16, LOST_S),))


def aims_of(found: Sequence[Row]) -> list[Row]:
    """The aims, with what was reached."""
    aims = []
    ours = [row for row in found if row["part"] == "systems" and row["system"] == ROSA]
    for robots, aim_hz in AIMS_HZ.items():
        same = [row for row in ours if row["robots"] == robots]
        lowest, meet = (
            min(row["qualified_hz"] for row in same),
            min(min(row["meet"].values()) for row in same),
        )
        words = (
            f"P4, {robots} robots: at least {aim_hz:g} qualified actions/s, every component in time in 99 %"
        )
        aims.append(_aim(words, f"{lowest:.1f}, {meet:.1%}", lowest >= aim_hz and meet >= MIN_MEET))
    beaten = []
    for row in found:
        if row["part"] == "systems" and row["system"] != ROSA:
            mine = next(o for o in ours if (o["robots"], o["start"]) == (row["robots"], row["start"]))
            if row["qualified_hz"] > mine["qualified_hz"] * (1 + NOISE):
                beaten.append(f"{row['system']} at {row['robots']} {row['start']}")
    aims.append(_aim("nowhere worse than a baseline", ", ".join(beaten) or "nowhere", not beaten))
    small = [row for row in found if row["part"] in ("systems", "factories") and row["system"] == ROSA]
    small = [row for row in small if row["robots"] <= 64]
    short = [name_of(row) for row in small if row["qualified_hz"] < row["planned_hz"]]
    aims.append(_aim("every factory at least its plan's rate", ", ".join(short) or "all", not short))
    offs = {name_of(row): row["qualified_hz"] / row["predicted_hz"] - 1 for row in small}
    worst = max(offs, key=lambda name: abs(offs[name]))
    within = sum(abs(off) <= 0.03 for off in offs.values())
    value = f"{within} of {len(offs)}, worst {offs[worst]:+.1%} at {worst}"
    aims.append(_aim("executed within 3 % of predicted, 8 to 64 robots", value, within == len(offs)))
    for row in found:
        if row["part"] == "jitter":
            calm = next(o for o in ours if (o["robots"], o["start"]) == (row["robots"], "random"))
            share = 1 - row["qualified_hz"] / calm["qualified_hz"]
            words = f"P4, {row['robots']} robots: at most 5 % less with 5 ms of jitter"
            aims.append(_aim(words, f"{share:.1%}", share <= MAX_JITTER_LOSS))
        elif row["part"] == "lost":
            back = "" if row["what"] == "system1" else f" that is warm again after {GONE_S:g} s"
            lost = f"P4, {row['robots']} robots lose a server of {row['what']}{back}"
            words = f"{lost}: all back within {BACK_S:g} s"
            aims.append(_aim(words, f"{row['longest_gap_s']} s", row["longest_gap_s"] <= BACK_S))
        elif row["part"] == "joined":
            meet = min(row["meet"].values())
            aims.append(
                _aim(
                    f"{row['scenario'].upper()}: 16 robots join 16 at once, nothing late",
                    f"{meet:.2%}",
                    meet >= MIN_MEET,
                )
            )
    return aims


def _aim(words: str, value: str, holds: bool) -> Row:
    return {"aim": words, "value": value, "holds": holds}


def plot(found: Sequence[Row], path: Path) -> None:
    """Throughput by robots beside the other systems, and what is lost without each policy."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10.5, 4))
    for system in (ROSA, *READINGS, *BASELINES):
        same = [r for r in found if (r["part"], r["system"], r["start"]) == ("systems", system, "together")]
        left.plot([r["robots"] for r in same], [r["qualified_hz"] for r in same], marker="o", label=system)
    left.plot(list(AIMS_HZ), list(AIMS_HZ.values()), "k_", markersize=12, label="aim")
    left.set_xlabel("robots on 8 servers, switched on together")
    left.set_ylabel("P4, SLO-qualified actions/s")
    left.legend(fontsize=7)
    names = [*WITHOUT, "none of them"]
    for shift, robots in enumerate((32, 64)):
        worth = {r["what"]: r["qualified_hz"] for r in found if _is_ablation(r, robots)}
        heights = [number + 0.4 * shift for number in range(len(names))]
        right.barh(heights, [worth[name] for name in names], height=0.38, label=f"{robots} robots")
    right.set_yticks([number + 0.2 for number in range(len(names))], names, fontsize=8)
    right.invert_yaxis()
    right.set_xlabel("SLO-qualified actions/s, switched on together")
    right.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=130)


def _is_ablation(row: Row, robots: int) -> bool:
    return (row["part"], row["robots"], row["start"]) == ("ablation", robots, "together")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=40.0)
    parser.add_argument(
        "--only",
        type=lambda text: frozenset(text.split(",")),
        default=frozenset(),
        metavar="PART|SCENARIO/ROBOTS/SYSTEM,...",
        help="run these again; the other rows stay",
    )
    parser.add_argument("--resume", action="store_true", help="keep what was measured at this commit")
    arguments = parser.parse_args()
    logging.getLogger("rosa.link").setLevel(
        logging.ERROR
    )  # whom a baseline does not serve says so every second
    options = f"--seeds {arguments.seeds} --seconds {arguments.seconds:g}"
    file = RESULT.with_suffix(".json")
    before = json.loads(file.read_text())["rows"] if file.is_file() else []
    plan = list(plan_of(arguments))

    def again(row: Row) -> bool:
        names = {row["part"], f"{row['scenario']}/{row['robots']}/{row['system']}"}
        wanted = not arguments.only or names & arguments.only
        return bool(wanted) and not (arguments.resume and row.get("commit") == code())

    found = before
    for row, found in measured(plan, before, again):
        print(json.dumps(row), flush=True)
        aims = aims_of(found) if len(found) == len(plan) else []
        write(file, found, aims, [measured_at(found), NOTE], options, ON_ONE_CORE)
    print_aims(aims_of(found))
    plot(found, RESULT.with_suffix(".png"))


if __name__ == "__main__":
    main()
