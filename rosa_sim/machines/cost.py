"""What Ray costs: memory and start-up of its nodes, and the same fleet on the same machines with and without it."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from rosa_sim.machines.nodes import Nodes, two_nodes
from rosa_sim.machines.story import Story, factory, story

ROBOTS, WORKERS = 32, 2
CALM_S, MEASURED_S, LONG_S = 5.0, 30.0, 3600.0
Row = dict[str, Any]


def compared() -> list[Row]:
    """Raises `TimeoutError` where something that has to happen does not."""
    began_s = time.monotonic()
    with two_nodes() as nodes:
        rows: list[Row] = [
            {
                "what": "nodes",
                "both_up_s": round(time.monotonic() - began_s, 1),
                "head_mb": memory_mb(nodes.pids(nodes.one)),
                "other_mb": memory_mb(nodes.pids(nodes.two)),
            }
        ]
        rows.append({"what": "ray", **_fleet(nodes, "ray")})
        rows.append({"what": "local", **_fleet(nodes, "local")})
    return rows


def _fleet(nodes: Nodes, cluster: str) -> Row:
    """Robots and their server on the first machine, which starts two workers: one on each machine, or both here."""
    content = factory(nodes, WORKERS)
    if cluster == "local":
        content["server_cluster"] = {"num_servers": WORKERS, "gpu_type": "cpu"}
    other_mb = memory_mb(nodes.pids(nodes.two))
    with (
        tempfile.TemporaryDirectory(prefix="rosa-cost-") as folder,
        story(nodes, Path(folder)) as told,
    ):
        began_s = time.monotonic()
        server = psutil.Process(told.serve(content).pid)
        told.until(lambda: len(told.events("worker_ready")) == WORKERS, "every worker ready")
        ready_s = time.monotonic() - began_s
        told.robots(ROBOTS, LONG_S)
        told.until(lambda: len(told.served(0.0)) == ROBOTS, "every robot served")
        time.sleep(CALM_S)
        row = _measured(told, server)
        row |= {
            "ready_s": round(ready_s, 2),
            "server_mb": memory_mb([server.pid]),
            "beside_mb": memory_mb([child.pid for child in server.children(recursive=True)]),
        }
        if cluster == "ray":  # its actor and its worker
            row["part_on_the_other_mb"] = round(memory_mb(nodes.pids(nodes.two)) - other_mb, 1)
        told.stop()
    return row


def _measured(told: Story, server: psutil.Process) -> Row:
    since_s, before_s = time.monotonic(), cpu_s(server)
    beside = [child for child in server.children() if "worker.worker" not in " ".join(child.cmdline())]
    driver_s = sum(cpu_s(child) for child in beside)
    time.sleep(MEASURED_S)
    took_s = time.monotonic() - since_s
    spent_s, driver_s = cpu_s(server) - before_s, sum(cpu_s(child) for child in beside) - driver_s
    ended = [call for call in told.calls() if call.at_s >= since_s and call.component]
    in_time = sorted(call.duration_ms for call in ended if call.ending == "in_time")
    if not in_time:
        raise TimeoutError("no call was answered in time")
    return {
        "robots": ROBOTS,
        "calls": len(ended),
        "in_time": round(len(in_time) / len(ended), 4),
        "p50_ms": round(median(in_time), 2),
        "p99_ms": round(in_time[int(0.99 * (len(in_time) - 1))], 2),
        "gateway_cpu_us_per_call": round(spent_s / len(ended) * 1e6, 1),
        "driver_share_of_a_core": round(driver_s / took_s, 4),
    }


def cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def memory_mb(pids: Sequence[int]) -> float:
    """Of processes together; memory that several share counts once (PSS)."""
    total_kb = 0
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:  # it has ended
            continue
        total_kb += next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)
    return round(total_kb / 1024, 1)
