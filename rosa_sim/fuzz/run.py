"""A live server, an honest robot and hostile processes side by side; what is promised, and what happened."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
import psutil

from rosa_sim.children import forked
from rosa_sim.fuzz.attack import attack
from rosa_sim.fuzz.honest import serve_well
from rosa_sim.ports import free_ports

ROOT = Path(__file__).resolve().parents[2]
FACTORY = """
server_cluster: {{num_servers: 1}}
robot_fleet: [{{task: pick, num_robots: 1}}]
pick:
  pipeline: {{action_period_ms: 400}}
  components:
    system1: {{model: policy, slo_ms: 300}}
models:
  policy: {{backend: emulated, options: {{images: {{front: [8, 8]}}, state: {{joint_position: 7}}}}}}
gateway: {{bind: "tcp://127.0.0.1:{port}", metrics_port: {metrics_port}}}
"""
MAX_GROWTH_MB = 256  # of the gateway's resident memory
MIN_IN_TIME = 0.99
SAMPLE_S = 0.5
START_S = 60.0


@dataclass
class FuzzOutcome:
    """What happened."""

    seed: int
    asked: int  # messages that the gateway was to read
    read: int = 0
    sent: int = 0
    seconds: float = 0.0
    latencies_ms: list[float | None] = field(default_factory=list)  # of the honest robot; None: missed
    resident_mb: list[float] = field(default_factory=list)
    descriptors: list[int] = field(default_factory=list)
    load: list[float] = field(default_factory=list)  # of the machine, whoever causes it: averages of a minute
    exit_status: int | None = None  # of the server, when it ended before it was told to
    tracebacks: int = 0
    workers_lost: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    answered: int = 0  # requests, the hostile ones among them
    cut_off: dict[str, int] = field(default_factory=dict)

    @property
    def in_time(self) -> float:
        good = sum(one is not None for one in self.latencies_ms)
        return good / max(1, len(self.latencies_ms))

    @property
    def growth_mb(self) -> float:
        return max(self.resident_mb, default=0.0) - (self.resident_mb[0] if self.resident_mb else 0.0)

    def aims(self) -> list[dict[str, Any]]:
        """Each promise with what was measured and whether it holds."""
        quick = [one for one in self.latencies_ms if one is not None]
        p99 = float(np.percentile(quick, 99)) if quick else float("inf")
        failed = self.exit_status is not None or self.tracebacks or self.workers_lost
        return [
            {
                "aim": f"the gateway reads {self.asked} hostile messages",
                "value": f"{self.read}, of {self.sent} that were sent whole",
                "holds": self.read >= self.asked,
            },
            {
                "aim": "no crash, no traceback, no lost worker",
                "value": "some" if failed else "none",
                "holds": not failed,
            },
            {
                "aim": f"the gateway's memory grows by less than {MAX_GROWTH_MB} MB",
                "value": f"{self.growth_mb:.0f} MB, from {self.resident_mb[0] if self.resident_mb else 0:.0f} MB",
                "holds": bool(self.resident_mb) and self.growth_mb < MAX_GROWTH_MB,
            },
            {
                "aim": f"the honest robot meets {MIN_IN_TIME:.0%} of its deadlines (300 ms, 10 Hz)",
                "value": f"{self.in_time:.2%} of {len(self.latencies_ms)}; p99 {p99:.0f} ms",
                "holds": len(self.latencies_ms) > 0 and self.in_time >= MIN_IN_TIME,
            },
        ]


@contextlib.contextmanager
def server(
    folder: Path, factory: str = FACTORY, descriptors: int = 0
) -> Iterator[tuple[subprocess.Popen[bytes], str, int, Path]]:
    """`rosa serve` with emulated models: (process, endpoint, metrics port, log file).

    `descriptors`: how many it may open; 0: as many as here.
    """
    port, metrics_port = free_ports(2)
    config, log = folder / "factory.yaml", folder / "server.log"
    config.write_text(factory.format(port=port, metrics_port=metrics_port))
    command = [sys.executable, "-m", "rosa_server.cli", "serve", str(config)]
    if descriptors:
        command = ["sh", "-c", f'ulimit -n {descriptors}; exec "$@"', "-", *command]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=environment, cwd=ROOT)
    try:
        end_s = time.monotonic() + START_S
        while b"ROSA is ready" not in log.read_bytes():
            if process.poll() is not None or time.monotonic() > end_s:
                raise RuntimeError(f"the server did not start:\n{log.read_text()}")
            time.sleep(0.05)
        yield process, f"tcp://127.0.0.1:{port}", metrics_port, log
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)
        process.kill()
        process.wait()


def fuzz(
    folder: Path, messages: int, seed: int, processes: int = 2, tell: Callable[[str], None] = lambda _: None
) -> FuzzOutcome:
    """Send this number of messages. `tell` gets a line about every five seconds."""
    outcome = FuzzOutcome(seed, messages)
    context = forked()
    sent = context.Value("q", 0)
    ready, stop, enough = context.Event(), context.Event(), context.Event()
    ours, theirs = context.Pipe()
    with server(folder) as (process, endpoint, metrics_port, log):
        honest = context.Process(target=serve_well, args=(endpoint, ready, stop, theirs), daemon=True)
        honest.start()
        if not ready.wait(START_S):
            raise RuntimeError(f"the honest robot was not welcomed:\n{log.read_text()}")
        time.sleep(1.0)
        hostile = [
            context.Process(target=attack, args=(endpoint, seed, first, processes, enough, sent), daemon=True)
            for first in range(processes)
        ]
        watched = psutil.Process(process.pid)
        outcome.resident_mb.append(watched.memory_info().rss / 1e6)
        began_s = told_s = time.monotonic()
        for one in hostile:
            one.start()
        while process.poll() is None and outcome.read < messages:
            time.sleep(SAMPLE_S)
            outcome.load.append(os.getloadavg()[0])
            with contextlib.suppress(psutil.NoSuchProcess):
                outcome.resident_mb.append(watched.memory_info().rss / 1e6)
                outcome.descriptors.append(watched.num_fds())
            _read_metrics(outcome, metrics_port)
            if time.monotonic() - told_s >= 5.0:
                told_s = time.monotonic()
                tell(
                    f"{outcome.read} of {messages} messages in {told_s - began_s:.0f} s,"
                    f" {outcome.resident_mb[-1]:.0f} MB, {outcome.descriptors[-1]} descriptors"
                )
        outcome.seconds, outcome.sent = time.monotonic() - began_s, sent.value
        outcome.exit_status = process.poll()
        enough.set()
        for one in hostile:
            one.join(20)
            one.terminate()
        stop.set()
        outcome.latencies_ms = ours.recv() if ours.poll(20) else []
        honest.join(10)
    text = log.read_text()
    outcome.tracebacks = text.count("Traceback")
    outcome.workers_lost = text.count('"worker_lost"')
    return outcome


def _read_metrics(outcome: FuzzOutcome, port: int) -> None:
    try:
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as page:
            lines = page.read().decode().splitlines()
    except OSError:  # the server has just ended
        return
    outcome.answered = 0
    refused: Counter[str] = Counter()
    cut_off: Counter[str] = Counter()
    for line in lines:
        name, _, value = line.rpartition(" ")
        if name.startswith("rosa_refused_total"):
            refused[name.split('"')[1]] += int(float(value))
        elif name.startswith("rosa_connections_cut_off_total"):
            cut_off[name.split('"')[1]] += int(float(value))
        elif name == "rosa_messages_total":
            outcome.read = int(float(value))
        elif name.startswith("rosa_requests_total"):
            outcome.answered += int(float(value))
    outcome.refused, outcome.cut_off = dict(refused), dict(cut_off)


def report(outcome: FuzzOutcome, command: str, machine: str, date: str) -> dict[str, Any]:
    """As benchmarks/results/ wants it."""
    rows = [
        {"of the gateway": f"refused: {cause}", "count": count}
        for cause, count in sorted(outcome.refused.items())
    ]
    rows += [
        {"of the gateway": f"connection cut off: {cause}", "count": count}
        for cause, count in sorted(outcome.cut_off.items())
    ]
    rows.append(
        {"of the gateway": "requests answered, the hostile ones among them", "count": outcome.answered}
    )
    return {
        "name": "fuzz",
        "command": command,
        "machine": machine,
        "date": date,
        "aims": outcome.aims(),
        "notes": [
            f"Seed {outcome.seed}, {outcome.seconds:.0f} s, at most {max(outcome.descriptors, default=0)} descriptors."
            " The hostile processes run at low priority, as hostile peers have machines of their own; each of their"
            " connections comes from another address of 127/8, so that none has to wait for its address.",
            f"The machine's load average was {min(outcome.load, default=0):.0f} to {max(outcome.load, default=0):.0f}"
            " meanwhile, other work on it included.",
        ],
        "rows": rows,
        "resident_mb": [round(one, 1) for one in outcome.resident_mb],
    }


def save(result: dict[str, Any], path: Path) -> None:
    path.write_text(json.dumps(result, indent=2) + "\n")
