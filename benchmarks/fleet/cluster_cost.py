"""What several machines cost: a call handed on between gateways, 10,000 robots on 125 nodes of which one is lost every
minute, a new schedule for the rest, and a real fleet with Ray beside the same one without.

    python -m benchmarks.fleet.cluster_cost [--part hop|fleet|plan|ray ...] [--minutes 2] [--gateways 125]

Parts that are not named keep the rows of the last run. `ray` needs Ray and network namespaces (`make cluster` has made
.venv-ray); the others run anywhere. Writes benchmarks/results/cluster_cost.json and cluster_cost.png.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import RESULTS
from benchmarks.conclude import ON_ONE_CORE, print_aims, write
from benchmarks.fleet.hop import hops
from benchmarks.fleet.scale import Timed
from benchmarks.provenance import code, measured_at
from rosa_server.scheduler.choosing.choice import choose
from rosa_server.scheduler.problem import problem_from
from rosa_server.scheduler.profiles.catalog import Catalog
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_server.scheduler.profiles.options import Options
from rosa_server.scheduler.running.handover import hand_over
from rosa_server.scheduler.running.migration import plan_migration
from rosa_sim.fleet.gateways import Gateways, factories_of
from rosa_sim.fleet.measure import Meter
from rosa_sim.fleet.scenario import load_scenario
from rosa_sim.fleet.simulation import Joining
from rosa_sim.fleet.systems import fleet_of, system_of

RESULT = RESULTS / "cluster_cost"
ROBOTS, GPUS, GATEWAYS = 10_000, 1000, 125
TASK = "assemble_kit"  # of P4
RAMP_S, CALM_S, EVERY_S = 12.0, 10.0, 60.0
MOVES_S = 0.6  # until a robot says hello to another gateway: median of `rosa_sim.machines.two_servers`
AFTER_S = 5.0  # of a loss: what of it is counted as its consequence
MAX_PLAN_S = 60.0  # a schedule must be there before the next node is lost
PARTS = ("hop", "fleet", "plan", "ray")
Row = dict[str, Any]


class BySecond(Meter):
    """Counts calls and actions by second, too, and when robots that were moved act again."""

    def __init__(self, *about: Any) -> None:
        super().__init__(*about)
        self.by_second: dict[int, int] = {}
        self.requests = 0
        self.waiting: dict[str, float] = {}  # robot -> when its node was lost
        self.waited_s: list[float] = []

    def sent(self, robot: Any, send: Any, now_s: float) -> None:
        self.requests += 1
        super().sent(robot, send, now_s)

    def acted(self, robot: Any, now_s: float) -> None:
        super().acted(robot, now_s)
        self.by_second[int(now_s)] = self.by_second.get(int(now_s), 0) + 1
        lost_s = self.waiting.pop(robot.name, None)
        if lost_s is not None:
            self.waited_s.append(now_s - lost_s)


def fleet_row(minutes: float, robots: int = ROBOTS, gpus: int = GPUS, gateways: int = GATEWAYS) -> Row:
    """The fleet, one node of which is lost every minute with its GPUs. Its robots say hello elsewhere, and are admitted
    there beside the others where every SLO still holds, or are refused."""
    whole = fleet_of(load_scenario("p4").factory, robots, gpus)
    parts, library = factories_of(whole, gateways), ProfileLibrary()
    systems = {}
    end_s = RAMP_S + CALM_S + minutes * EVERY_S
    tasks = {f"n{k}-{i}": part.tasks[TASK] for k, part in enumerate(parts) for i in range(_robots(part))}
    meter = BySecond(tasks, RAMP_S, end_s)
    nodes, floor_hz = [], 0.0
    for number, part in enumerate(parts):
        size = (_robots(part), part.server_cluster.num_servers)
        if size not in systems:  # equal nodes have equal plans
            systems[size] = system_of("rosa", part, library, 0.03)
        system = systems[size]
        assert system.serving is not None, system.refused
        floor_hz += system.schedule.action_throughput_hz
        count = _robots(part)
        fleet = [Joining(f"n{number}-{i}", TASK, i / count, 0.0) for i in range(count)]
        nodes.append(Timed(system.serving, fleet, meter, seed=number))
    world = Gateways(nodes)
    world.run(RAMP_S)
    begun_s, sent, core_s = time.process_time(), meter.requests, [node.core_s for node in nodes]
    world.run(RAMP_S + CALM_S)
    calm_hz = sum(meter.by_second.get(s, 0) for s in range(int(RAMP_S), int(RAMP_S + CALM_S))) / CALM_S
    losses: list[float] = []
    moved: list[tuple[str, Timed]] = []
    while world.now_s < end_s - 1e-9:
        at_s = world.now_s
        losses.append(at_s)
        moved += _lose(world, nodes.pop(0), nodes, meter, at_s)
        world.run(min(end_s, at_s + EVERY_S))
        print(f"{world.now_s:.0f} s simulated, {time.process_time() - begun_s:.0f} s of CPU", flush=True)
    left_core_s = core_s[len(losses) :]
    busy = [
        (node.core_s - before) / (end_s - RAMP_S) for node, before in zip(nodes, left_core_s, strict=True)
    ]
    seconds = range(int(RAMP_S + CALM_S), int(end_s))
    after = [s for s in seconds if any(lost_s <= s < lost_s + AFTER_S for lost_s in losses)]
    steady = range(int(end_s - 10), int(end_s))
    served = sum(node.robots[name].link.ready for name, node in moved)
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
        "robots_moved": len(moved),
        "robots_moved_and_served": served,
        "acts_again_median_s": round(waited[len(waited) // 2], 2) if waited else None,
        "acts_again_worst_s": round(waited[-1], 2) if waited else None,
        "in_time": {name: round(calls.meet, 5) for name, calls in meter.calls.items()},
        "requests_per_s_of_a_gateway": round((meter.requests - sent) / (end_s - RAMP_S) / gateways, 1),
        "cores_of_a_gateway": round(sum(busy) / len(busy), 4),
        "cores_of_the_fullest": round(max(busy), 4),
        "cpu_s_per_simulated_s": round(took_s / (end_s - RAMP_S), 2),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }


def _robots(factory: Any) -> int:
    return int(factory.robot_fleet[0].num_robots)


def _lose(
    world: Gateways, lost: Timed, left: Sequence[Timed], meter: BySecond, at_s: float
) -> list[tuple[str, Timed]]:
    """A node is gone, with its gateway and its GPUs; its robots greet the others, one or two each."""
    world.nodes.remove(lost)
    moved = []
    for number, name in enumerate(lost.robots):
        node = left[number % len(left)]
        node.join(Joining(name, TASK, at_s + MOVES_S))
        meter.waiting[name] = at_s
        moved.append((name, node))
    return moved


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
        aim(
            "each gateway's decisions take below half a core",
            f"{fleet['cores_of_the_fullest']:.3f} of a core the fullest, {fleet['cores_of_a_gateway']:.3f} on average",
            fleet["cores_of_the_fullest"] < 0.5,
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
        names = {"p50_ms": "p50", "p99_ms": "p99", "gateway_cpu_us_per_call": "CPU", "ready_s": "start"}
        ratios = [both["ray"][name] / both["local"][name] for name in names]
        axes[2].bar(list(names.values()), ratios, color="0.5")
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
        "`cores` count the serving core's decisions, without sockets and codec (the benchmark `path` has those).",
        "`hop`: decisions alone, of both gateways together for a forwarded call. `load`: of the machine, when the part"
        " began.",
        measured_at(rows),
    ]
    write(RESULT.with_suffix(".json"), rows, aims_of(rows), notes, how=ON_ONE_CORE)
    plot(rows, RESULT.with_suffix(".png"))


if __name__ == "__main__":
    sys.exit(main())
