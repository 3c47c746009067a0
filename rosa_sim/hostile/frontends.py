"""python -m rosa_sim.hostile.frontends [--seconds 20]: hostile clients at both frontends, exit status 0 when all holds.

One after the other, each attack goes on for some seconds from several threads, beside a client of openpi, one of GR00T
and a native robot (5 Hz, 300 ms), and beside the same at another server that nobody attacks.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import platform
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
from websockets.exceptions import WebSocketException

from rosa_server.serving.base.descriptors import more_descriptors
from rosa_sim.fuzz.run import server
from rosa_sim.hostile.attempt import MAX_GROWTH_MB, MIN_IN_TIME, as_lowest_priority
from rosa_sim.hostile.client_attacks import ATTACKS, SEEN, Attack, Ports
from rosa_sim.hostile.clients import KINDS, asking_well
from rosa_sim.hostile.robots import ServedRequests
from rosa_sim.hostile.wire_attacks import WIRE_ATTACKS
from rosa_sim.ports import free_ports

OUT = Path(__file__).resolve().parents[2] / "benchmarks" / "results" / "hostile_frontends.json"
THREADS = 2
JOINS_S = 60.0
SIDE = {"height": 8, "width": 8, "fit": "pad"}
HAND = {"gripper": "closed_fraction", "open_m": 0.08}
SMALL = {"task": "pick", "max_clients": 32, "max_message_mb": 0.1}


def factory(ports: Ports) -> str:
    """Of `fuzz.run.server`, which fills in the gateway's ports."""
    told = {
        "gateway": {"bind": "tcp://127.0.0.1:GATEWAY", "metrics_port": "METRICS"},
        "server_cluster": {"num_servers": 1},
        "robot_fleet": [{"task": "pick", "num_robots": 8}],
        "pick": {
            "pipeline": {"action_period_ms": 400},
            "components": {"system1": {"model": "policy", "slo_ms": 300}},
        },
        "models": {
            "policy": {
                "backend": "emulated",
                "options": {
                    "images": {"front": [8, 8]},
                    "state": {"joint_position": 7, "gripper_width": 1},
                    "latency_ms": 5.0,
                },
            }
        },
        "frontends": {
            "openpi": {
                **SMALL,
                "protocol": "openpi",
                "bind": f"127.0.0.1:{ports['openpi']}",
                "images": {"front": {"key": "observation/image", **SIDE}},
                "state": {
                    "joint_position": [{"key": "observation/joint_position", "count": 7}],
                    "gripper_width": [{"key": "observation/gripper_position", **HAND}],
                },
                "actions": {"actions": [{"columns": [*range(8)]}]},
            },
            "gr00t": {
                **SMALL,
                "protocol": "gr00t",
                "bind": f"127.0.0.1:{ports['gr00t']}",
                "prompt_key": "annotation.task",
                "images": {"front": {"key": "video.ego", **SIDE}},
                "state": {
                    "joint_position": [{"key": "state.arm", "count": 7}],
                    "gripper_width": [{"key": "state.hand", **HAND}],
                },
                "actions": {"action.arm": [{"columns": [*range(8)]}]},
            },
        },
    }
    text = json.dumps(told).replace("{", "{{").replace("}", "}}")
    return text.replace("GATEWAY", "{port}").replace('"METRICS"', "{metrics_port}")


@contextlib.contextmanager
def place(folder: Path) -> Iterator[tuple[psutil.Process, str, Ports, Path]]:
    """A running server with both frontends: (process, endpoint, their ports, log)."""
    folder.mkdir(exist_ok=True)
    ports = dict(zip(("openpi", "gr00t"), free_ports(2), strict=True))
    with server(folder, factory(ports)) as (process, endpoint, _, log):
        yield psutil.Process(process.pid), endpoint, ports, log


def attacked(attack: Attack, ports: Ports, seconds: float) -> int:
    """From several threads, again and again; how often."""
    done = [0] * THREADS
    end_s = time.monotonic() + seconds

    def run(number: int) -> None:
        as_lowest_priority()
        while time.monotonic() < end_s:
            with contextlib.suppress(OSError, WebSocketException, EOFError):
                attack(ports, SEEN)
            done[number] += 1

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds + JOINS_S)
    return sum(done)


def resident_mb(process: psutil.Process) -> float:
    """Of the server and its frontends."""
    return float(sum(one.memory_info().rss for one in (process, *process.children(recursive=True))) / 1e6)


def cpu_s(process: psutil.Process) -> dict[int, float]:
    """CPU time of the server and its processes, by their number."""
    times = {}
    for one in (process, *process.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            times[one.pid] = sum(one.cpu_times()[:2])
    return times


def row_of(name: str, attack: Attack, folder: Path, seconds: float) -> dict[str, Any]:
    """One attack at a separate server."""
    with (
        place(folder / "attacked") as (process, endpoint, ports, log),
        place(folder / "calm") as (_, elsewhere, their_ports, _),
    ):
        with asking_well(endpoint, ports) as served, asking_well(elsewhere, their_ports) as calm:
            frontends, before_mb = {one.pid for one in process.children(recursive=True)}, resident_mb(process)
            used_s, began_s = cpu_s(process), time.monotonic()
            made = attacked(attack, ports, seconds)
            took_s = time.monotonic() - began_s
            busy = {pid: (now_s - used_s.get(pid, 0.0)) / took_s for pid, now_s in cpu_s(process).items()}
            grown_mb = resident_mb(process) - before_mb
        lost = len(frontends - {one.pid for one in process.children(recursive=True)})
        traceback = "Traceback" in log.read_text()
    shares = {kind: served[kind].share / max(1e-9, calm[kind].share) for kind in KINDS}
    checks = (
        ("a process was lost", lost > 0),
        ("a traceback", traceback),
        (f"{grown_mb:+.0f} MB", grown_mb > MAX_GROWTH_MB),
        *(
            (f"{kind}: {shares[kind]:.1%} of what is in time elsewhere", shares[kind] < MIN_IN_TIME)
            for kind in KINDS
        ),
    )
    failures = [words for words, failed in checks if failed]
    return {
        "attempt": name,
        "made": made,
        **{kind: _words(served[kind], calm[kind]) for kind in KINDS},
        "memory": f"{grown_mb:+.0f} MB",
        "busiest process": f"{max(busy.values()):.0%} of a core",
        "failures": failures,
        "holds": not failures,
    }


def _words(served: ServedRequests, calm: ServedRequests) -> str:
    return f"{served.share:.1%} of {served.asked} in time; {calm.share:.1%} elsewhere"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="rosa_sim.hostile.frontends", description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="of each attack")
    parser.add_argument("--only", default="", help="attacks whose name has this in it")
    parser.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args(argv)
    more_descriptors()
    load, rows = os.getloadavg()[0], []
    for name, attack in {**ATTACKS, **WIRE_ATTACKS}.items():
        if arguments.only not in name:
            continue
        with tempfile.TemporaryDirectory(prefix="rosa-hostile-") as folder:
            rows.append(row_of(name, attack, Path(folder), arguments.seconds))
        print(json.dumps(rows[-1]), flush=True)
    held = sum(row["holds"] for row in rows)
    aim = (
        f"hostile clients leave every other client {MIN_IN_TIME:.0%} of what is in time where nobody attacks"
    )
    result = {
        "name": "hostile_frontends",
        "command": "make hostile",
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, load {load:.1f} before the run",
        "date": datetime.date.today().isoformat(),
        "aims": [{"aim": aim, "value": f"{held} of {len(rows)} attacks", "holds": held == len(rows)}],
        "notes": ["Attackers run at the lowest priority, as hostile clients have machines of their own."],
        "rows": rows,
    }
    print(f"{'holds ' if held == len(rows) else 'MISSED'}  {aim}: {held} of {len(rows)}")
    if not arguments.only:
        arguments.out.write_text(json.dumps(result, indent=2) + "\n")
    return 0 if held == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
