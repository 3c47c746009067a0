"""How cost grows with the fleet: planning, simulated server decisions, memory and messages, up to 10,000 robots of P4.

python benchmarks/scale.py [--robots 64,256,1024,4096,10000]: each size in a process of its own, one server for every
eight robots. Writes benchmarks/results/scale.json and scale.png.
"""

from __future__ import annotations

import argparse
import datetime
import json
import multiprocessing
import os
import platform
import resource
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rosa_client.runtime.commands import Send
from rosa_server.scheduler.problem import problem_from
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_server.scheduler.profiles.options import Options
from rosa_server.scheduler.search.solve import solve
from rosa_server.serving.core.actions import Dispatch, Reply
from rosa_sim.fleet.measure import Meter
from rosa_sim.fleet.robot import VirtualRobot
from rosa_sim.fleet.scenario import load_scenario
from rosa_sim.fleet.simulation import Joining, Simulation, tasks_of
from rosa_sim.fleet.systems import executable, fleet_of

RESULTS = Path(__file__).resolve().parent / "results"
SIZES = (64, 256, 1024, 4096, 10_000)
ROBOTS_PER_SERVER = 8
LARGE = 5000  # robots; simulated for a quarter of the time


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
    schedule = solve(problem_from(factory), library, Options())
    plan_s = time.process_time() - begun_s
    plan_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    row: dict[str, Any] = {
        "robots": robots,
        "servers": servers,
        "plan_cpu_s": plan_s,
        "plan_peak_mb": plan_mb,
    }
    system = executable("rosa", factory, schedule, library, 0.03)
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


def report(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The result file."""
    return {
        "name": "scale",
        "command": "python benchmarks/scale.py",
        "date": datetime.date.today().isoformat(),
        "machine": f"{platform.machine()}, {os.cpu_count()} shared cores, one used, busy",
        "notes": ["P4, one server for every eight robots. CPU time, simulated robots and links included."],
        "aims": [],
        "rows": rows,
    }


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Four panels over the number of robots, both axes logarithmic."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    panels = {
        "plan_cpu_s": "planning, CPU s",
        "cpu_s_per_simulated_s": "simulation, CPU s per s",
        "requests_per_s": "requests per s",
        "peak_mb": "peak memory, MB",
    }
    figure, axes = plt.subplots(1, len(panels), figsize=(14, 3.2), layout="constrained")
    for axis, (name, title) in zip(axes, panels.items(), strict=True):
        points = [(row["robots"], row[name]) for row in rows if name in row]
        axis.loglog(*zip(*points, strict=True), marker="o")
        axis.set(xlabel="robots", title=title)
        axis.grid(visible=True, which="both", alpha=0.3)
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--robots", default=",".join(map(str, SIZES)))
    parser.add_argument(
        "--seconds",
        type=float,
        default=2.0,
        help="simulated, after one second of start; a quarter for the largest",
    )
    parser.add_argument("--out", type=Path, default=RESULTS / "scale.json")
    arguments = parser.parse_args()
    rows = []
    context = multiprocessing.get_context("spawn")
    for robots in map(int, arguments.robots.split(",")):
        with context.Pool(1) as pool:
            seconds = arguments.seconds if robots < LARGE else arguments.seconds / 4
            row = pool.apply(measure, (robots, seconds))
        rows.append(row)
        print({name: round(v, 3) if isinstance(v, float) else v for name, v in row.items()}, flush=True)
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(report(rows), indent=1) + "\n")
    draw(rows, arguments.out.with_suffix(".png"))
    print(f"wrote {arguments.out} and {arguments.out.with_suffix('.png')}")


if __name__ == "__main__":
    main()
