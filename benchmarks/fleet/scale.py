"""How cost grows with the fleet: planning, simulated server decisions, memory and messages, up to 10,000 robots of P4.

    python -m benchmarks.fleet.scale [--robots 64,256,1024,4096,10000] [--planned 1000,10000,100000]
        [--gateways 1,2,4,16]

Each size in a process of its own, one server for every eight robots; then plans alone, of P4 and Mix4; then `SPREAD`
robots over several gateways, a node each. Writes benchmarks/results/scale.json and scale.png.
"""

from __future__ import annotations

import argparse
import datetime
import json
import multiprocessing
import os
import platform
import resource
import time
from pathlib import Path
from typing import Any

from benchmarks import RESULTS
from rosa_client.runtime.commands import Send
from rosa_server.scheduler.choosing.choice import choose
from rosa_server.scheduler.problem import problem_from
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_server.scheduler.profiles.options import Options
from rosa_server.scheduler.running.handover import hand_over
from rosa_server.serving.core.queueing.actions import Dispatch, Reply
from rosa_sim.fleet.gateways import Gateways, factories_of
from rosa_sim.fleet.measure import Meter
from rosa_sim.fleet.robot import VirtualRobot
from rosa_sim.fleet.scenario import load_scenario
from rosa_sim.fleet.simulation import Joining, Simulation, tasks_of
from rosa_sim.fleet.systems import fleet_of, system_of

SIZES = (64, 256, 1024, 4096, 10_000)
PLANNED, WORKLOADS = (1000, 10_000, 100_000), ("p4", "mix4")  # plans alone
PLAN_S, PLAN_MB = {1000: 1.0, 100_000: 60.0}, 1024.0  # that they may take
ROBOTS_PER_SERVER = 8
LARGE = 5000  # robots; simulated for a quarter of the time
GATEWAYS = (1, 2, 4, 16)
SPREAD = 4096  # robots over several gateways
RAMP_S = 12.0  # until rates have settled
WITHIN = 0.03


class Counting(Meter):
    """Counts requests as well."""

    requests = 0

    def sent(self, robot: VirtualRobot, send: Send, now_s: float) -> None:
        self.requests += 1
        super().sent(robot, send, now_s)


def measure(robots: int, seconds: float) -> dict[str, Any]:
    """One size, in this process."""
    servers = max(8, robots // ROBOTS_PER_SERVER)
    factory, library = fleet_of(load_scenario("p4").factory, robots, servers), ProfileLibrary()
    begun_s = time.process_time()
    system = system_of("rosa", factory, library, 0.03)
    plan_s = time.process_time() - begun_s
    plan_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    row: dict[str, Any] = {
        "robots": robots,
        "servers": servers,
        "plan_cpu_s": plan_s,
        "plan_peak_mb": plan_mb,
    }
    if system.serving is None:
        return {**row, "refused": system.refused}
    fleet = [Joining(f"assemble_kit-{i}", "assemble_kit", i / robots, 0.0) for i in range(robots)]
    meter = Counting(tasks_of(factory, fleet), 0.0, seconds)
    actions = [0]

    def watch(_: float, action: Any) -> None:
        actions[0] += isinstance(action, Reply | Dispatch)

    begun_s = time.process_time()
    simulation = Simulation(system.serving, fleet, meter, watch=watch)
    simulation.run(1.0)  # hellos, and every task begins
    start_s, before, sent = time.process_time() - begun_s, simulation.events, meter.requests
    actions[0] = 0
    begun_s = time.process_time()
    simulation.run(1.0 + seconds)
    took_s = time.process_time() - begun_s
    return {
        **row,
        "start_cpu_s": start_s,
        "simulated_s": seconds,
        "cpu_s_per_simulated_s": took_s / seconds,
        "events_per_cpu_s": (simulation.events - before) / took_s,
        "requests_per_s": (meter.requests - sent) / seconds,
        "decisions_per_s": actions[0] / seconds,
        "cpu_us_per_request": took_s / max(1, meter.requests - sent) * 1e6,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def measure_plan(workload: str, robots: int) -> dict[str, Any]:
    """The plan alone, and what the server makes of it when it reads it."""
    servers = robots // ROBOTS_PER_SERVER
    factory, library = fleet_of(load_scenario(workload).factory, robots, servers), ProfileLibrary()
    problem = problem_from(factory)
    begun_s = time.process_time()
    choice = choose(problem, library, Options(), factory.policies)
    plan_s = time.process_time() - begun_s
    plan_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    begun_s = time.process_time()
    hand_over(factory, choice.schedule, "plan", library)
    return {
        "planned": workload,
        "robots": robots,
        "servers": servers,
        "plan_cpu_s": plan_s,
        "plan_peak_mb": plan_mb,
        "read_cpu_s": time.process_time() - begun_s,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "floor_hz": choice.schedule.action_throughput_hz,
        "predicted_hz": choice.prediction.throughput_hz,
        "least_in_time": min(choice.prediction.meet.values(), default=0.0),
        "missing": choice.prediction.missing,
    }


class Timed(Simulation):
    """Adds up the time of the serving core alone: robots, links and the clock are not counted."""

    core_s = 0.0

    def _tick_core(self) -> None:
        begun_s = time.thread_time()
        super()._tick_core()
        self.core_s += time.thread_time() - begun_s

    def _to_gateway(self, now_s: float, seat: Any, message: Any) -> None:
        begun_s = time.thread_time()
        super()._to_gateway(now_s, seat, message)
        self.core_s += time.thread_time() - begun_s

    def _executed(self, now_s: float, worker: Any, done: Any) -> None:
        begun_s = time.thread_time()
        super()._executed(now_s, worker, done)
        self.core_s += time.thread_time() - begun_s


def measure_gateways(gateways: int, robots: int, seconds: float) -> dict[str, Any]:
    """The same robots and servers, divided among several gateways of this process."""
    library = ProfileLibrary()
    whole = fleet_of(load_scenario("p4").factory, robots, robots // ROBOTS_PER_SERVER)
    nodes, floor_hz, predicted_hz, plan_s, meters = [], 0.0, 0.0, 0.0, []
    for number, factory in enumerate(factories_of(whole, gateways)):
        begun_s = time.process_time()
        system = system_of("rosa", factory, library, 0.03)
        plan_s += time.process_time() - begun_s
        floor_hz += system.schedule.action_throughput_hz
        predicted_hz += system.predicted_hz
        if system.serving is None:
            return {"gateways": gateways, "robots": robots, "refused": system.refused}
        count = factory.robot_fleet[0].num_robots
        fleet = [Joining(f"node{number}-{i}", "assemble_kit", i / count, 0.0) for i in range(count)]
        meters.append(Counting(tasks_of(factory, fleet), RAMP_S, RAMP_S + seconds))
        nodes.append(Timed(system.serving, fleet, meters[-1], seed=number))
    world = Gateways(nodes)
    world.run(RAMP_S)
    before = [(node.core_s, meter.requests) for node, meter in zip(nodes, meters, strict=True)]
    world.run(RAMP_S + seconds)
    busy = [node.core_s - core_s for node, (core_s, _) in zip(nodes, before, strict=True)]
    requests = [meter.requests - sent for meter, (_, sent) in zip(meters, before, strict=True)]
    return {
        "gateways": gateways,
        "robots": robots,
        "servers": robots // ROBOTS_PER_SERVER,
        "plan_cpu_s": plan_s,
        "floor_hz": floor_hz,
        "predicted_hz": predicted_hz,
        "executed_hz": sum(meter.executed for meter in meters) / seconds,
        "requests_per_s_of_a_gateway": max(requests) / seconds,
        "core_us_per_request": sum(busy) / max(1, sum(requests)) * 1e6,
        "cores_busy_at_the_fullest_gateway": max(busy) / seconds,
        "welcomed": world.welcomed,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def plan_aims_of(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """How long plans may take, and how much memory."""
    return [
        {
            "aim": f"{row['robots']:,} robots of {row['planned']} planned, outcome included, in"
            f" {PLAN_S[row['robots']]:g} s of CPU time and {PLAN_MB:,.0f} MB",
            "value": f"{row['plan_cpu_s']:.1f} s, {row['plan_peak_mb']:.0f} MB",
            "holds": row["plan_cpu_s"] <= PLAN_S[row["robots"]]
            and row["plan_peak_mb"] <= PLAN_MB
            and not row["missing"],
        }
        for row in rows
        if row.get("planned") and row["robots"] in PLAN_S
    ]


def aims_of(spread: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Gateways that suffice, and what they cost."""
    busy = "cores_busy_at_the_fullest_gateway"
    enough = [row["gateways"] for row in spread if busy in row and row[busy] < 1]
    done = {row["gateways"]: row["executed_hz"] for row in spread if busy in row}
    if not enough or 1 not in done:
        return []
    share = done[enough[0]] / done[1]
    kept = {row["gateways"]: row["executed_hz"] / row["predicted_hz"] for row in spread if busy in row}
    far = max(kept.values(), key=lambda ratio: abs(ratio - 1))
    return [
        {
            "aim": f"{SPREAD} robots: some number of gateways keeps each below one core of its own decisions",
            "value": f"{enough[0]} gateways",
            "holds": True,
        },
        {
            "aim": "and the robots act as often, less 2 %, as with all servers behind one gateway of unlimited speed",
            "value": f"{share:.3f}x",
            "holds": share >= 0.98,
        },
        {
            "aim": f"whatever the number of gateways, executed within {WITHIN:.0%} of predicted",
            "value": f"farthest {far:.3f}x",
            "holds": abs(far - 1) <= WITHIN,
        },
    ]


def report(rows: list[dict[str, Any]], spread: list[dict[str, Any]], kept: str = "") -> dict[str, Any]:
    """The result file. `kept`: what is said of rows that were not measured this time."""
    return {
        "name": "scale",
        "command": "python -m benchmarks.fleet.scale",
        "date": datetime.date.today().isoformat(),
        "machine": f"{platform.machine()}, {os.cpu_count()} shared cores, one used, busy",
        "notes": [
            "P4, one server for every eight robots. CPU time, simulated robots and links included.",
            f"The first limit is one core of the gateway's own decisions. Below: {SPREAD} robots over several gateways,"
            " a node with its own servers each; `core` counts the serving core alone, without sockets and codec.",
            *([kept] if kept else []),
        ],
        "aims": [*plan_aims_of(rows), *aims_of(spread)],
        "rows": [*rows, *spread],
    }


def draw(rows: list[dict[str, Any]], spread: list[dict[str, Any]], path: Path) -> None:
    """Four panels over the number of robots and one over that of gateways, all axes logarithmic."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    panels = {
        "plan_cpu_s": "planning, CPU s",
        "cpu_s_per_simulated_s": "simulation, CPU s per s",
        "requests_per_s": "requests per s",
        "peak_mb": "peak memory, MB",
    }
    figure, axes = plt.subplots(1, len(panels) + 1, figsize=(17, 3.2), layout="constrained")
    last = axes[-1]
    places = [
        (row["gateways"], row["cores_busy_at_the_fullest_gateway"]) for row in spread if "welcomed" in row
    ]
    if places:
        last.loglog(*zip(*places, strict=True), marker="o")
    last.axhline(1.0, color="k", linestyle=":", linewidth=1)
    last.set(xlabel=f"gateways, {SPREAD} robots", title="cores busy with decisions, fullest gateway")
    last.grid(visible=True, which="both", alpha=0.3)
    for axis, (name, title) in zip(axes[:-1], panels.items(), strict=True):
        points = [(row["robots"], row[name]) for row in rows if name in row and "planned" not in row]
        axis.loglog(*zip(*points, strict=True), marker="o")
        axis.set(xlabel="robots", title=title)
        axis.grid(visible=True, which="both", alpha=0.3)
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--robots", default=",".join(map(str, SIZES)))
    parser.add_argument("--planned", default=",".join(map(str, PLANNED)))
    parser.add_argument("--gateways", default=",".join(map(str, GATEWAYS)))
    either = parser.add_mutually_exclusive_group()
    either.add_argument("--only-gateways", action="store_true", help="keep the other rows of the last run")
    either.add_argument("--only-planned", action="store_true", help="keep the other rows of the last run")
    parser.add_argument(
        "--seconds",
        type=float,
        default=2.0,
        help="simulated, after one second of start; a quarter for the largest",
    )
    parser.add_argument("--out", type=Path, default=RESULTS / "scale.json")
    arguments = parser.parse_args()
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    spread: list[dict[str, Any]] = []
    kept = ""
    if arguments.only_gateways or arguments.only_planned:
        former = json.loads(arguments.out.read_text())
        before, part = former["rows"], "plans alone" if arguments.only_planned else "several gateways"
        kept = f"All rows but those of {part} are of {former['date']}."
        rows = [
            row
            for row in before
            if "gateways" not in row and not (arguments.only_planned and "planned" in row)
        ]
        spread = [row for row in before if arguments.only_planned and "gateways" in row]
    jobs: list[tuple[Any, ...]] = []
    if not arguments.only_gateways and not arguments.only_planned:
        sizes = map(int, arguments.robots.split(","))
        jobs += [(measure, n, arguments.seconds if n < LARGE else arguments.seconds / 4) for n in sizes]
    if not arguments.only_gateways:
        jobs += [(measure_plan, name, int(n)) for n in arguments.planned.split(",") for name in WORKLOADS]
    if not arguments.only_planned:
        gateways = map(int, arguments.gateways.split(","))
        jobs += [(measure_gateways, n, SPREAD, arguments.seconds) for n in gateways]
    context = multiprocessing.get_context("spawn")
    for call, *values in jobs:
        with context.Pool(1) as pool:
            row = pool.apply(call, values)
        (spread if call is measure_gateways else rows).append(row)
        print({name: round(v, 3) if isinstance(v, float) else v for name, v in row.items()}, flush=True)
        arguments.out.write_text(json.dumps(report(rows, spread, kept), indent=1) + "\n")
    draw(rows, spread, arguments.out.with_suffix(".png"))
    print(f"wrote {arguments.out} and {arguments.out.with_suffix('.png')}")


if __name__ == "__main__":
    main()
