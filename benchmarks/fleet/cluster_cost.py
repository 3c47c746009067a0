"""What several machines cost: a call handed on between gateways, 10,000 robots on 125 nodes of which one is lost every
minute, a new schedule for the rest, and a real fleet with Ray beside the same one without.

    python -m benchmarks.fleet.cluster_cost [--part hop|fleet|gateway|plan|ray ...] [--minutes 2] [--gateways 125]

Parts that are not named keep the rows of the last run. `fleet` takes a third of the time behind scripts/compiled.py;
`gateway`, which is one node of it, is for the plain sources, as they are in production. `ray` needs Ray and network
namespaces (`make cluster` has made .venv-ray); the others run anywhere. Writes benchmarks/results/cluster_cost.json and
cluster_cost.png.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, inf
from pathlib import Path
from typing import Any

from benchmarks import RESULTS
from benchmarks.conclude import ON_ONE_CORE, print_aims, write
from benchmarks.fleet.hop import hops
from benchmarks.provenance import code, measured_at
from rosa_server.scheduler.choosing.choice import choose
from rosa_server.scheduler.problem import problem_from
from rosa_server.scheduler.profiles.catalog import Catalog
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_server.scheduler.profiles.options import Options
from rosa_server.scheduler.running.handover import hand_over
from rosa_server.scheduler.running.migration import plan_migration
from rosa_sim.fleet.gateways import factories_of
from rosa_sim.fleet.scenario import load_scenario
from rosa_sim.fleet.simulation import Joining, Simulation
from rosa_sim.fleet.systems import fleet_of, system_of

RESULT = RESULTS / "cluster_cost"
ROBOTS, GPUS, GATEWAYS = 10_000, 1000, 125
TASK = "assemble_kit"  # of P4
RAMP_S, CALM_S, EVERY_S = 12.0, 10.0, 60.0
MOVES_S = 0.6  # until a robot says hello to another gateway: median of `rosa_sim.machines.two_servers`
AFTER_S = 5.0  # of a loss: what of it is counted as its consequence
MAX_PLAN_S = 60.0  # a schedule must be there before the next node is lost
PARTS = ("hop", "fleet", "gateway", "plan", "ray")
Row = dict[str, Any]


class BySecond:
    """Counts calls and actions by second, and when robots that were moved act again. Of every node, one after the
    other: what is compiled cannot be extended, so it is no `Meter`."""

    def __init__(self, from_s: float) -> None:
        self._from_s = from_s
        self.by_second: dict[int, int] = {}
        self.requests = 0  # from then on
        self.calls: dict[str, list[int]] = {}  # component -> missed, in time
        self.waiting: dict[str, float] = {}  # robot -> when its node was lost
        self.waited_s: list[float] = []

    def sent(self, robot: Any, send: Any, now_s: float) -> None:
        self.requests += now_s >= self._from_s

    def ended(self, robot: Any, ended: Any, now_s: float) -> None:
        if now_s >= self._from_s and ended.ending != "cancelled":
            self.calls.setdefault(ended.component, [0, 0])[ended.ending == "in_time"] += 1

    def acted(self, robot: Any, now_s: float) -> None:
        self.by_second[int(now_s)] = self.by_second.get(int(now_s), 0) + 1
        lost_s = self.waiting.pop(robot.name, None)
        if lost_s is not None:
            self.waited_s.append(now_s - lost_s)

    def late(self, robot: Any, component: str, now_s: float) -> None:
        """It is counted as missed."""

    def escalated(self, robot: Any, alert: Any, now_s: float) -> None:
        """Its robot does not act any more, which is counted."""


@dataclass
class Life:
    """What happens to one node. Nothing passes between nodes, so each is played from its beginning to its end before
    the next one: the state of 80 robots stays in the processor's caches, and 125 nodes are never in memory at once."""

    number: int
    names: list[str]  # of the robots that begin here
    comes: list[tuple[float, list[str]]] = field(
        default_factory=list
    )  # robots of nodes that are lost, and when
    ends_s: float = inf  # when it is lost


def lives_of(counts: Sequence[int], losses: Sequence[float]) -> list[Life]:
    """A node is lost at each of these times, the first one first, and its robots greet the others, one or two each.
    `counts`: robots of each node."""
    lives = [Life(n, [f"n{n}-{i}" for i in range(count)]) for n, count in enumerate(counts)]
    for lost, at_s in zip(lives, losses, strict=False):
        lost.ends_s, left = at_s, lives[lost.number + 1 :]
        robots = [*lost.names, *(name for _, names in lost.comes for name in names)]
        for number, life in enumerate(left):
            if names := robots[number :: len(left)]:
                life.comes.append((at_s, names))
    return lives


def played(life: Life, world: Any, meter: BySecond, end_s: float) -> tuple[int, int]:
    """Play a node to its end. `world`: a `Simulation` of its first robots. Returns how many robots came to it, and how
    many of them are served at the end; of one that is lost, none."""
    came: list[str] = []
    for at_s, names in life.comes:
        world.run(at_s)
        for name in names:
            world.join(Joining(name, TASK, at_s + MOVES_S))
            meter.waiting[name] = at_s
        came += names
    world.run(min(end_s, life.ends_s))
    if life.ends_s < end_s:
        return 0, 0
    return len(came), sum(world.robots[name].link.ready for name in came)


def fleet_row(minutes: float, robots: int = ROBOTS, gpus: int = GPUS, gateways: int = GATEWAYS) -> Row:
    """The fleet, one node of which is lost every minute with its GPUs. Its robots say hello elsewhere, and are admitted
    there beside the others where every SLO still holds, or are refused."""
    whole = fleet_of(load_scenario("p4").factory, robots, gpus)
    parts, library = factories_of(whole, gateways), ProfileLibrary()
    systems: dict[tuple[int, int], Any] = {}
    end_s, losses = RAMP_S + CALM_S + minutes * EVERY_S, losses_of(minutes)
    meter, floor_hz, moved, served = BySecond(RAMP_S), 0.0, 0, 0
    begun_s = time.process_time()
    for life in lives_of([_robots(part) for part in parts], losses):
        part = parts[life.number]
        size = (_robots(part), part.server_cluster.num_servers)
        if size not in systems:  # equal nodes have equal plans
            systems[size] = system_of("rosa", part, library, 0.03)
        system = systems[size]
        assert system.serving is not None, system.refused
        floor_hz += system.schedule.action_throughput_hz
        world = Simulation(system.serving, _fleet(life), meter, seed=life.number)
        came = played(life, world, meter, end_s)
        moved, served = moved + came[0], served + came[1]
        print(f"node {life.number}: {time.process_time() - begun_s:.0f} s of CPU", flush=True)
    calm_hz = sum(meter.by_second.get(s, 0) for s in range(int(RAMP_S), int(RAMP_S + CALM_S))) / CALM_S
    seconds = range(int(RAMP_S + CALM_S), int(end_s))
    after = [s for s in seconds if any(lost_s <= s < lost_s + AFTER_S for lost_s in losses)]
    steady = range(int(end_s - 10), int(end_s))
    waited = sorted(meter.waited_s)
    took_s = time.process_time() - begun_s
    return {
        "robots": robots,
        "gpus": gpus,
        "gateways": gateways,
        "nodes_lost": len(losses),
        "simulated_s": round(end_s - RAMP_S, 1),
        "own_rates_hz": round(floor_hz, 1),
        "before_hz": round(calm_hz, 1),
        "after_a_loss_hz": round(sum(meter.by_second.get(s, 0) for s in after) / max(1, len(after)), 1),
        "at_the_end_hz": round(sum(meter.by_second.get(s, 0) for s in steady) / len(steady), 1),
        "robots_moved": moved,
        "robots_moved_and_served": served,
        "acts_again_median_s": round(waited[len(waited) // 2], 2) if waited else None,
        "acts_again_worst_s": round(waited[-1], 2) if waited else None,
        "in_time": {name: round(good / (good + bad), 5) for name, (bad, good) in sorted(meter.calls.items())},
        "requests_per_s_of_a_gateway": round(meter.requests / (end_s - RAMP_S) / gateways, 1),
        "cpu_s_per_simulated_s": round(took_s / end_s, 2),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }


def losses_of(minutes: float) -> list[float]:
    """When nodes are lost."""
    return [RAMP_S + CALM_S + number * EVERY_S for number in range(ceil(minutes))]


def gateway_row(minutes: float, robots: int = ROBOTS, gpus: int = GPUS, gateways: int = GATEWAYS) -> Row:
    """The node to which most robots come, alone: what its gateway decides, in the sources as production runs them."""
    parts = factories_of(fleet_of(load_scenario("p4").factory, robots, gpus), gateways)
    lives = lives_of([_robots(part) for part in parts], losses_of(minutes))
    life = max(lives, key=lambda one: len(one.names) + sum(len(names) for _, names in one.comes))
    from benchmarks.fleet.scale import Timed  # it extends what may be compiled

    system = system_of("rosa", parts[life.number], ProfileLibrary(), 0.03)
    assert system.serving is not None, system.refused
    meter, end_s = BySecond(RAMP_S), RAMP_S + CALM_S + minutes * EVERY_S
    world = Timed(system.serving, _fleet(life), meter, seed=life.number)
    world.run(RAMP_S)
    before_s = world.core_s
    came, served = played(life, world, meter, end_s)
    return {
        "robots": len(life.names),
        "robots_moved": came,
        "robots_moved_and_served": served,
        "requests_per_s": round(meter.requests / (end_s - RAMP_S), 1),
        "cores_of_the_fullest": round((world.core_s - before_s) / (end_s - RAMP_S), 4),
    }


def _fleet(life: Life) -> list[Joining]:
    return [Joining(name, TASK, i / len(life.names), 0.0) for i, name in enumerate(life.names)]


def _robots(factory: Any) -> int:
    return int(factory.robot_fleet[0].num_robots)


def plan_rows() -> list[Row]:
    """After a node is lost: a schedule for what is left, and the steps from the old one to it."""
    factory, library = load_scenario("p4").factory, ProfileLibrary()
    before = fleet_of(factory, ROBOTS, GPUS)
    old = choose(problem_from(before), library, Options(), before.policies).schedule
    rows = []
    for what, robots, gpus in (
        ("one schedule for all", ROBOTS, GPUS - GPUS // GATEWAYS),
        ("a node's own schedule", ROBOTS // GATEWAYS + 1, GPUS // GATEWAYS),
    ):
        after = fleet_of(factory, robots, gpus)
        problem = problem_from(after)
        begun_s = time.process_time()
        new = choose(problem, library, Options(), after.policies).schedule
        planned_s = time.process_time() - begun_s
        begun_s = time.process_time()
        hand_over(after, new, "plan", library)
        row = {
            "what": what,
            "robots": robots,
            "gpus": gpus,
            "feasible": new.feasible,
            "plan_cpu_s": round(planned_s, 2),
            "read_cpu_s": round(time.process_time() - begun_s, 2),
        }
        if robots == ROBOTS and new.feasible:
            begun_s = time.process_time()
            way = plan_migration(
                old, new, problem_from(before), Catalog(problem_from(before), library, Options())
            )
            row |= {
                "way_cpu_s": round(time.process_time() - begun_s, 2),
                "steps": len(way.steps),
                "streams_moved": sum(len(step.routes) for step in way.steps if step.action == "switch"),
                "streams_interrupted": len(way.interrupted),
            }
        rows.append(row)
    return rows


def ray_rows() -> list[Row]:
    """Imported here: the simulation needs no Ray."""
    from rosa_sim.machines.cost import compared

    return compared()


def aims_of(rows: Sequence[Row]) -> list[Row]:
    """What is wanted, and what came of it."""
    found = {(row["part"], row["what"]): row for row in rows}
    aims: list[Row] = []

    def aim(words: str, value: str, holds: bool) -> None:
        aims.append({"aim": words, "value": value, "holds": bool(holds)})

    direct, forwarded = found.get(("hop", "direct")), found.get(("hop", "forwarded"))
    if direct and forwarded:
        ratio = forwarded["cpu_us"] / direct["cpu_us"]
        aim(
            "decisions about a call that is handed on cost both gateways together at most 3 times those about one of"
            " the node's own",
            f"{ratio:.2f} times ({forwarded['cpu_us']:.0f} us, {direct['cpu_us']:.0f} us)",
            ratio <= 3,
        )
    beats = found.get(("hop", "beats"))
    if beats:
        aim(
            f"the beats of {beats['gateways'] - 1} other gateways take below 10 % of a gateway's core",
            f"{beats['share_of_a_core']:.1%}",
            beats["share_of_a_core"] < 0.1,
        )
    fleet = next((row for row in rows if row["part"] == "fleet"), None)
    if fleet:
        aim(
            f"simulated with {ROBOTS:,} robots on {GPUS:,} GPUs and {GATEWAYS} gateways",
            f"{fleet['robots']:,} robots, {fleet['gpus']:,} GPUs, {fleet['gateways']} gateways,"
            f" {fleet['nodes_lost']} nodes lost",
            fleet["gateways"] >= GATEWAYS,
        )
        share = fleet["at_the_end_hz"] / fleet["before_hz"]
        floor = 1 - fleet["nodes_lost"] / fleet["gateways"] - 0.01
        aim(
            f"{fleet['robots']:,} robots, {fleet['nodes_lost']} of {fleet['gateways']} nodes lost, one a minute:"
            " the fleet acts as often as before, less the share of the GPUs that are gone and 1 %",
            f"{fleet['before_hz']:,.0f} actions/s before, {share:.3f} of it at the end",
            share >= floor,
        )
        aim(
            "every robot of a lost node is served by another one",
            f"{fleet['robots_moved_and_served']} of {fleet['robots_moved']}",
            fleet["robots_moved_and_served"] == fleet["robots_moved"],
        )
    gateway = next((row for row in rows if row["part"] == "gateway"), None)
    if gateway:
        robots = gateway["robots"] + gateway["robots_moved"]
        aim(
            "a gateway's decisions take below half a core, also where most robots of lost nodes come",
            f"{gateway['cores_of_the_fullest']:.3f} of a core, {robots} robots",
            gateway["cores_of_the_fullest"] < 0.5,
        )
    plans = [row for row in rows if row["part"] == "plan"]
    if plans:
        worst = max(row["plan_cpu_s"] + row["read_cpu_s"] + row.get("way_cpu_s", 0.0) for row in plans)
        aim(
            f"a new schedule and the way to it, before the next node is lost ({MAX_PLAN_S:g} s)",
            f"{worst:.1f} s",
            worst < MAX_PLAN_S and all(row["feasible"] for row in plans),
        )
    both = [found.get(("ray", name)) for name in ("local", "ray")]
    if both[0] and both[1]:
        local, ray = both[0], both[1]
        p50 = ray["p50_ms"] / local["p50_ms"]
        name = "gateway_cpu_us_per_call"
        cpu = ray[name] / local[name]
        aim(
            "the same fleet with Ray: a median call takes at most 1.1 times as long as with local workers",
            f"{p50:.2f} times ({ray['p50_ms']:.1f} ms, {local['p50_ms']:.1f} ms)",
            p50 <= 1.1,
        )
        aim(
            "and costs the server's process at most 1.5 times the CPU time",
            f"{cpu:.2f} times ({ray[name]:.0f} us, {local[name]:.0f} us)",
            cpu <= 1.5,
        )
    return aims


def plot(rows: Sequence[Row], path: Path) -> None:
    """CPU time of a call by who runs it, the fleet before and after losses, and Ray beside local workers."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 3, figsize=(12, 3.4), layout="constrained")
    calls = [row for row in rows if row["part"] == "hop" and "cpu_us" in row]
    axes[0].bar([row["what"] for row in calls], [row["cpu_us"] for row in calls], color="0.5")
    axes[0].set_title("decisions of one call, us of CPU time", fontsize=10)
    for row in (row for row in rows if row["part"] == "fleet"):
        names = ("before_hz", "after_a_loss_hz", "at_the_end_hz")
        axes[1].bar(["before", "after a loss", "at the end"], [row[name] for name in names], color="0.5")
        axes[1].set_title(f"{row['robots']:,} robots, {row['nodes_lost']} nodes lost: actions/s", fontsize=10)
    both = {row["what"]: row for row in rows if row["part"] == "ray"}
    if {"local", "ray"} <= set(both):
        bars = {"p50_ms": "p50", "p99_ms": "p99", "gateway_cpu_us_per_call": "CPU", "ready_s": "start"}
        ratios = [both["ray"][name] / both["local"][name] for name in bars]
        axes[2].bar(list(bars.values()), ratios, color="0.5")
        axes[2].axhline(1.0, color="k", linestyle=":", linewidth=1)
        axes[2].set_title("Ray, times local workers", fontsize=10)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def main() -> int:
    """Exit status 1 when an aim is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", action="append", choices=PARTS, default=[], help="default: all but `ray`")
    parser.add_argument("--minutes", type=float, default=2.0, help="simulated, a node is lost in each")
    parser.add_argument(
        "--gateways", type=int, default=GATEWAYS, help="simulated; robots and GPUs of each stay the same"
    )
    arguments = parser.parse_args()
    share = arguments.gateways / GATEWAYS
    size = (round(ROBOTS * share), round(GPUS * share), arguments.gateways)
    wanted = arguments.part or [part for part in PARTS if part != "ray"]
    rows: list[Row] = []
    for part in wanted:
        load = round(os.getloadavg()[0], 1)
        made = {
            "hop": hops,
            "fleet": lambda: [{"what": "a node lost every minute", **fleet_row(arguments.minutes, *size)}],
            "gateway": lambda: [{"what": "the fullest", **gateway_row(arguments.minutes, *size)}],
            "plan": plan_rows,
            "ray": ray_rows,
        }[part]()
        new = [{"part": part, **row, "load": load, "commit": code()} for row in made]
        for row in new:
            print(json.dumps(row), flush=True)
        rows = [row for row in kept() if row["part"] != part] + new
        rows.sort(key=lambda row: PARTS.index(row["part"]))
        save(rows)
    aims = aims_of(rows)
    print_aims(aims)
    return 0 if all(aim["holds"] for aim in aims) else 1


def kept() -> list[Row]:
    """The rows of the last run."""
    file = RESULT.with_suffix(".json")
    found: list[Row] = json.loads(file.read_text())["rows"] if file.exists() else []
    return found


def save(rows: Sequence[Row]) -> None:
    """Result file and plot."""
    notes = [
        f"Simulated: P4, {ROBOTS // GATEWAYS} robots and {GPUS // GATEWAYS} GPUs to a node, each with a gateway and a"
        " schedule of its own. A lost node takes its gateway along; its robots greet the others after"
        f" {MOVES_S:g} s and are admitted beside their robots. Forwarding between gateways is not simulated here.",
        "`cores` count the serving core's decisions of one node, without sockets and codec, which the benchmark `path`"
        " has.",
        "`hop`: decisions alone, of both gateways together for a forwarded call. `load`: of the machine, when the part"
        " began.",
        measured_at(rows),
    ]
    write(RESULT.with_suffix(".json"), rows, aims_of(rows), notes, how=ON_ONE_CORE)
    plot(rows, RESULT.with_suffix(".png"))


if __name__ == "__main__":
    sys.exit(main())
