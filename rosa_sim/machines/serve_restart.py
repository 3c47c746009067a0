"""What Ray Serve's own restart costs the same clients on the same machines, to compare `faults.py` with;
`benchmarks/faults/machine_faults.py` repeats it.

Two replicas, one on each of two machines, that answer after 31 ms, by Serve's direct ingress: a port for each, no proxy
and no router. A client is what a load balancer would be: it asks its replica, at once the other one where the
connection is refused or ends, and has 500 ms for both. Serve and Ray are as they come.
"""

from __future__ import annotations

import argparse
import http.client
import importlib.util
import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from rosa_sim.machines.nodes import Nodes, two_nodes
from rosa_sim.machines.story import SLO_MS, Call
from rosa_sim.namespaces import Machine

FIRST_PORT, PORTS = 30000, 6
CALM_S, START_S, HEAL_S = 4.0, 90.0, 180.0
LOOK_EVERY_S = 0.5
ACTION_S = 0.8  # between an answer and the next call, as of the robots
FAULTS = ("worker", "node")
APP = """
import asyncio, sys, time
import ray
from ray import serve

@serve.deployment(num_replicas=2, max_ongoing_requests=64, ray_actor_options={"num_cpus": 0.1})
class Policy:
    async def __call__(self, request):
        await asyncio.sleep(0.031)
        return "ok"

ray.init(address=sys.argv[1], log_to_driver=False)
serve.start(http_options=serve.HTTPOptions(host="0.0.0.0"))
serve.run(Policy.bind())
print("deployed", flush=True)
time.sleep(3600)
"""


@dataclass(frozen=True)
class Restart:
    """One fault. Seconds from it; `healed_s`: until two replicas answer again."""

    what: str
    median_s: float
    worst_s: float
    missing: int
    max_missed: int
    healed_s: float


def answers(endpoint: tuple[str, int], seconds: float) -> bool:
    connection = http.client.HTTPConnection(*endpoint, timeout=max(0.01, seconds))
    try:
        connection.request("GET", "/")
        return connection.getresponse().read() == b"ok"
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def alive(addresses: list[str]) -> list[tuple[str, int]]:
    """Every replica that answers."""
    every = [(address, FIRST_PORT + number) for address in addresses for number in range(PORTS)]
    return [one for one in every if answers(one, 0.2)]


def client(name: str, endpoints: list[tuple[str, int]], out: Path, lock: threading.Lock) -> None:
    """Asks for ever; one line per call."""
    while True:
        end_s = time.monotonic() + SLO_MS / 1000
        began_s = time.monotonic()
        good = False
        for endpoint in endpoints:
            good = good or answers(endpoint, end_s - time.monotonic())
        at_s = time.monotonic()
        in_time = good and at_s <= end_s
        if not in_time:  # a balancer first asks what it knows to answer
            endpoints.reverse()
        with lock, out.open("a") as file:
            row = [at_s, name, "system1", "in_time" if in_time else "missed", 1000 * (at_s - began_s)]
            file.write(json.dumps(row) + "\n")
        time.sleep(ACTION_S)


def clients(folder: str, count: str, *found: str) -> None:
    """A process of its own: `found` are HOST:PORT."""
    endpoints = [(one.rpartition(":")[0], int(one.rpartition(":")[2])) for one in found]
    lock = threading.Lock()
    for number in range(int(count)):
        order = endpoints[number % 2 :] + endpoints[: number % 2]
        told = (f"robot{number:02d}", order, Path(folder) / "calls.jsonl", lock)
        threading.Thread(target=client, args=told).start()
        time.sleep(0.05)


def calls(folder: Path) -> list[Call]:
    lines = (folder / "calls.jsonl").read_text().splitlines()
    return [Call(*json.loads(line)) for line in lines if line.endswith("]")]


def until(condition: Callable[[], bool], what: str, limit_s: float) -> None:
    end_s = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > end_s:
            raise TimeoutError(f"{what} did not happen within {limit_s:g} s")
        time.sleep(LOOK_EVERY_S)


def look(nodes: Nodes, machine: Machine) -> list[str]:
    """The replicas that answer, as seen from a machine."""
    words = (
        sys.executable,
        "-m",
        "rosa_sim.machines.serve_restart",
        "--alive",
        nodes.one.address,
        nodes.two.address,
    )
    return nodes.run(machine, words, 30.0).stdout.split()


def once(what: str, robots: int) -> Restart:
    """Two new machines, the application, its clients, and one fault. Raises `TimeoutError` where it does not heal."""
    os.environ["RAY_SERVE_ENABLE_DIRECT_INGRESS"] = "1"
    with two_nodes() as nodes, tempfile.TemporaryDirectory(prefix="rosa-serve-") as name:
        folder, log = Path(name), Path(name) / "app.log"
        app = nodes.popen(nodes.one, (sys.executable, "-c", APP, nodes.address), log)
        crowd = None
        try:
            until(
                lambda: "deployed" in log.read_text(), f"the application ({log.read_text()[-500:]})", START_S
            )
            until(lambda: len(look(nodes, nodes.one)) == 2, "two replicas", START_S)
            found = look(nodes, nodes.one)
            if len({one.partition(":")[0] for one in found}) != 2:
                raise TimeoutError(f"Serve has placed both replicas on one machine: {found}")
            words = (
                sys.executable,
                "-m",
                "rosa_sim.machines.serve_restart",
                "--clients",
                name,
                str(robots),
                *found,
            )
            crowd = nodes.popen(nodes.one, words, folder / "clients.log")
            until(lambda: (folder / "calls.jsonl").exists(), "the first call", START_S)
            time.sleep(CALM_S)
            at_s = time.monotonic()
            if what == "worker":
                for pid in nodes.named(nodes.two, b"ServeReplica"):
                    os.kill(pid, signal.SIGKILL)
            else:
                nodes.kill(nodes.two)
            until(lambda: len(look(nodes, nodes.one)) == 2, "two replicas again", HEAL_S)
            healed_s = time.monotonic() - at_s
            time.sleep(CALM_S)
            ended = [call for call in calls(folder) if call.at_s >= at_s]
        finally:
            for process in (app, crowd):
                if process is not None:
                    process.kill()
                    process.wait()
    first: dict[str, float] = {}
    for call in ended:
        if call.ending == "in_time":
            first[call.robot] = min(call.at_s - at_s, first.get(call.robot, call.at_s))
    missed = Counter(call.robot for call in ended if call.ending == "missed")
    took = list(first.values())
    return Restart(what, median(took), max(took), len(missed), max(missed.values(), default=0), healed_s)


def complete() -> bool:
    """Whether Ray Serve is here with all that it needs."""
    return importlib.util.find_spec("fastapi") is not None


def main() -> int:
    """What runs on one of the machines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--alive", nargs="+", metavar="ADDRESS", help="print every replica that answers")
    parser.add_argument(
        "--clients", nargs="+", metavar="WORD", help="folder, how many, and HOST:PORT of each replica"
    )
    arguments = parser.parse_args()
    if arguments.alive:
        print(" ".join(f"{host}:{port}" for host, port in alive(arguments.alive)))
    else:
        clients(*arguments.clients)
    return 0


if __name__ == "__main__":
    sys.exit(main())
