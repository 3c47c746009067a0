"""A server for hours, and a fleet of virtual robots that come, leave and crash; nothing may grow.

Robots work in groups, a process each. A group leaves with a bye or is killed, and comes back a few seconds later under
the same names; now and then a worker is killed. `benchmarks/faults/soak.py` judges the samples and draws them.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from rosa_client.runtime.commands import Alert, CallEnded, Send
from rosa_contract.config.factory import load_factory
from rosa_sim.children import forked
from rosa_sim.fleet.live import LiveFleet
from rosa_sim.fleet.robot import Habits, VirtualRobot
from rosa_sim.fleet.simulation import Joining
from rosa_sim.fuzz.run import server

FACTORY = """
server_cluster: {{num_servers: 2}}
robot_fleet: [{{task: pick, num_robots: 48}}]
pick:
  pipeline: {{action_period_ms: 400}}
  components:
    system1: {{model: policy, slo_ms: 300}}
    safety: {{model: guard, slo_ms: 500, freq_hz: 1}}
models:
  policy: {{backend: emulated, options: {{latency_ms: 10, per_item_ms: 1, horizon: 1, dof: 2}}}}
  guard: {{backend: emulated, options: {{latency_ms: 5}}}}
gateway: {{bind: "tcp://127.0.0.1:{port}", metrics_port: {metrics_port}}}
"""
GROUPS, ROBOTS = 4, 8
STAYS_S = 40.0  # mean time of a group
AWAY_S = (1.0, 5.0)
CRASHES = 0.5  # share of the groups that are killed
KILL_WORKER_EVERY_S = 60.0
START_S = 60.0  # within which the process of a group has to be at work
HABITS = Habits(operator_s=1.0)  # somebody resumes a robot that called for help


@dataclass
class SoakSample:
    """How the server is, and what the robots got since the sample before."""

    at_s: float
    descriptors: int
    resident_mb: float
    threads: int
    robots: int  # that should be there
    calls: int
    missed: int
    p50_ms: float | None
    p99_ms: float | None
    load: float = 0.0  # of the machine, whoever causes it: the average of a minute


@dataclass
class Soak:
    """What happened."""

    joined: int = 0
    left: int = 0
    crashed: int = 0
    workers_killed: int = 0
    server_ended: bool = False
    tracebacks: int = 0
    samples: list[SoakSample] = field(default_factory=list)


@dataclass
class Listener:
    """Notes how the calls of one process's robots end."""

    calls: list[tuple[bool, float]] = field(default_factory=list)  # (missed, ms)

    def ended(self, robot: VirtualRobot, ended: CallEnded, now_s: float) -> None:
        if ended.ending != "cancelled":
            self.calls.append((ended.ending != "in_time", ended.duration_ms))

    def sent(self, robot: VirtualRobot, send: Send, now_s: float) -> None: ...

    def late(self, robot: VirtualRobot, component: str, now_s: float) -> None: ...

    def acted(self, robot: VirtualRobot, now_s: float) -> None: ...

    def escalated(self, robot: VirtualRobot, alert: Alert, now_s: float) -> None: ...


def work(number: int, endpoint: str, config: Path, tokens: Path, pipe: Connection[Any, Any]) -> None:
    """A process of its own: a group's robots work until they are told to leave; sends how their calls ended."""
    listener = Listener()
    robots = [Joining(f"g{number}r{index}", "pick", 0.0) for index in range(ROBOTS)]
    now_s = time.monotonic()
    fleet = LiveFleet(endpoint, load_factory(config), robots, listener, now_s, HABITS, tokens=tokens)
    while not pipe.poll():
        fleet.run(time.monotonic() + 0.5)
        pipe.send(listener.calls)
        listener.calls = []
    fleet.close()
    pipe.send(None)


class Group:
    """The place of one group; its processes come and go."""

    def __init__(self, number: int, start: Callable[[int], tuple[BaseProcess, Connection[Any, Any]]]) -> None:
        self._number, self._start = number, start
        self._process: BaseProcess | None = None
        self._pipe: Connection[Any, Any] | None = None
        self._stays_s = 0.0
        self.due_s = 0.0  # when it comes, or goes
        self.works = False  # it has said something since it came

    @property
    def here(self) -> bool:
        return self._process is not None

    def come(self, now_s: float, stays_s: float) -> None:
        """Start; it stays for so long from when its robots work, which takes a busy machine many seconds."""
        self._process, self._pipe = self._start(self._number)
        self.works, self._stays_s, self.due_s = False, stays_s, now_s + START_S

    def heard(self) -> list[tuple[bool, float]]:
        """How calls ended since this was asked last."""
        calls: list[tuple[bool, float]] = []
        with contextlib.suppress(EOFError, OSError):
            while self._pipe is not None and self._pipe.poll():
                calls += self._pipe.recv() or []
                if not self.works:
                    self.works, self.due_s = True, time.monotonic() + self._stays_s
        return calls

    def go(self, crash: bool) -> list[tuple[bool, float]]:
        """Leave, or be killed. Returns the last calls."""
        assert self._process is not None and self._pipe is not None
        if not self._process.is_alive():
            raise RuntimeError(
                f"the robots of group {self._number} ended by themselves: {self._process.exitcode}"
            )
        calls: list[tuple[bool, float]] = []
        if crash:
            self._process.kill()
            calls = self.heard()
        else:
            self._pipe.send("leave")
            with contextlib.suppress(EOFError, OSError):
                while self._pipe.poll(20) and (some := self._pipe.recv()) is not None:
                    calls += some
        self._process.join(20)
        self._process.kill()
        self._process.join()
        self._pipe.close()
        self._process = self._pipe = None
        return calls


def soak(folder: Path, seconds: float, seed: int = 1, tell: Callable[[str], None] = lambda _: None) -> Soak:
    """Run it for so long from when the first robots work, with about two hundred samples; `tell` gets a line with each.

    Raises RuntimeError when robots end by themselves, or none works within a minute.
    """
    result, chance = Soak(), random.Random(seed)
    context = forked()
    tokens = folder / "tokens"
    with server(folder, FACTORY) as (process, endpoint, _, log):

        def start(number: int) -> tuple[BaseProcess, Connection[Any, Any]]:
            ours, theirs = context.Pipe()
            arguments = (number, endpoint, folder / "factory.yaml", tokens, theirs)
            child = context.Process(target=work, args=arguments, daemon=True)
            child.start()
            theirs.close()
            return child, ours

        groups = [Group(number, start) for number in range(GROUPS)]
        calls: list[tuple[bool, float]] = []
        every_s = max(1.0, seconds / 200)
        for one in groups:
            one.come(time.monotonic(), _stays_s(chance))
            result.joined += 1
        calls += _first_calls(groups)
        began_s = time.monotonic()
        next_sample_s, next_kill_s = began_s + every_s, began_s + KILL_WORKER_EVERY_S
        watched = psutil.Process(process.pid)
        while (now_s := time.monotonic()) < began_s + seconds and process.poll() is None:
            for one in groups:
                calls += one.heard()
                if now_s < one.due_s:
                    continue
                if one.here:
                    crash = chance.random() < CRASHES
                    calls += one.go(crash)
                    result.crashed, result.left = result.crashed + crash, result.left + (not crash)
                    one.due_s = now_s + chance.uniform(*AWAY_S)
                else:
                    one.come(now_s, _stays_s(chance))
                    result.joined += 1
            if now_s >= next_kill_s:
                next_kill_s = now_s + KILL_WORKER_EVERY_S
                result.workers_killed += _kill_a_worker(watched, chance)
            if now_s >= next_sample_s:
                next_sample_s = now_s + every_s
                here = ROBOTS * sum(one.here for one in groups)
                result.samples.append(_sample(watched, now_s - began_s, here, calls))
                calls = []
                tell(f"{now_s - began_s:.0f} of {seconds:.0f} s: {result.samples[-1]}")
            time.sleep(0.1)
        result.server_ended = process.poll() is not None
        for one in groups:
            if one.here:
                one.go(crash=False)
    result.tracebacks = log.read_text().count("Traceback")
    return result


def _stays_s(chance: random.Random) -> float:
    return 5.0 + chance.expovariate(1 / STAYS_S)


def _first_calls(groups: Sequence[Group]) -> list[tuple[bool, float]]:
    """What is heard until the robots of one group work."""
    end_s = time.monotonic() + START_S
    while time.monotonic() < end_s:
        calls = [call for one in groups for call in one.heard()]
        if any(one.works for one in groups):
            return calls
        time.sleep(0.1)
    raise RuntimeError(f"no robot works after {START_S:g} s")


def _kill_a_worker(watched: psutil.Process, chance: random.Random) -> int:
    workers = [
        one for one in watched.children() if "rosa_server.serving.worker.worker" in " ".join(one.cmdline())
    ]
    if not workers:
        return 0
    chance.choice(workers).send_signal(signal.SIGKILL)
    return 1


def _sample(watched: psutil.Process, at_s: float, robots: int, calls: list[tuple[bool, float]]) -> SoakSample:
    times = [ms for missed, ms in calls if not missed]
    p50, p99 = (float(np.percentile(times, share)) if times else None for share in (50, 99))
    resident_mb = watched.memory_info().rss / 1e6
    missed = sum(one for one, _ in calls)
    return SoakSample(
        round(at_s, 1),
        watched.num_fds(),
        resident_mb,
        watched.num_threads(),
        robots,
        len(calls),
        missed,
        p50,
        p99,
        round(os.getloadavg()[0], 1),
    )


def flatness(samples: list[SoakSample], name: str) -> tuple[float, float]:
    """The medians of a figure in the second and in the last quarter of the samples: the first one warms up."""
    quarter = len(samples) // 4
    values = [getattr(sample, name) for sample in samples]
    parts = (values[quarter : 2 * quarter], values[3 * quarter :])
    known = [[one for one in part if one is not None] for part in parts]
    before, after = (float(np.median(part)) if part else inf for part in known)
    return before, after
