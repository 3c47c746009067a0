"""One attempt: a server of its own, well-behaved robots beside it, the attack, and what of the promise holds."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import psutil

from rosa_server.serving.edge.access import make_keys
from rosa_sim.fuzz.run import server
from rosa_sim.hostile.robots import ServedRequests, name_of, serving_well

STRANGER = "127.0.0.2"  # the whole of 127/8 is this machine: hostile peers have addresses of their own
THIEF = "thief"  # the robot whose key the attacker has
VICTIM = "victim"  # a robot that the attacker wants to be
MIN_IN_TIME = 0.99
MAX_GROWTH_MB = 250.0  # what loopback brings in 50 ms; the gateway looks every 20 ms at what is held
MAX_LINES_PER_S = 40.0  # of the server's log: 20 of each kind that peers can cause
SETTLE_S = 1.0
SAMPLE_S = 0.1
COMERS = itertools.count()
MIN_ATTACK_S = 10.0  # a shorter attack is made again, so that a share of requests says something
FACTORY = """
server_cluster: {{{{num_servers: 1}}}}
robot_fleet: [{{{{task: pick, num_robots: 1}}}}]
pick:
  pipeline: {{{{action_period_ms: 400}}}}
  components:
    system1: {{{{model: policy, slo_ms: 300}}}}
models:
  policy: {{{{backend: emulated, options: {{{{images: {{{{front: [8, 8]}}}}, state: {{{{joint_position: 7}}}}}}}}}}}}
gateway: {{{{bind: "tcp://127.0.0.1:{{port}}", metrics_port: {{metrics_port}}{more}}}}}
"""


@dataclass(frozen=True)
class Place:
    """The server under attack."""

    endpoint: str
    metrics_port: int
    process: psutil.Process
    log: Path
    keys: Path | None

    @property
    def port(self) -> int:
        return int(self.endpoint.rsplit(":", 1)[1])

    def alive(self) -> bool:
        return bool(self.process.is_running() and self.process.status() != psutil.STATUS_ZOMBIE)

    def resident_mb(self) -> float:
        """Of the gateway; 0 when it has ended."""
        with contextlib.suppress(psutil.Error):
            return float(self.process.memory_info().rss / 1e6)
        return 0.0

    def cpu_s(self) -> float:
        """Processor time of the gateway so far."""
        times = self.process.cpu_times()
        return float(times.user + times.system)

    def events(self, name: str) -> list[dict[str, Any]]:
        """The log lines of one event."""
        lines = [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]
        return [line for line in lines if line["event"] == name]

    def counted(self) -> dict[str, float]:
        """Every metric by its name, with its labels in braces."""
        with urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=20) as page:
            lines = page.read().decode().splitlines()
        parts = (line.rpartition(" ") for line in lines if not line.startswith("#"))
        return {name: float(value) for name, _, value in parts}


@dataclass
class AttemptOutcome:
    """What happened."""

    words: str
    failures: list[str] = field(default_factory=list)  # promises that were not kept
    served: ServedRequests = field(default_factory=ServedRequests)
    undisturbed: ServedRequests = field(
        default_factory=ServedRequests
    )  # at the same time, at a server that nobody attacked
    growth_mb: float = 0.0
    seen: dict[str, int] = field(default_factory=dict)  # cause -> how often the metrics count it

    @property
    def holds(self) -> bool:
        return not self.failures


@dataclass(frozen=True)
class Attempt:
    """An attack. `run` returns what happened in words, and what of `promised` was not kept, or an empty string.

    The promises of `run_beside` hold for each: the server runs on, the well-behaved robots are served in time, memory
    and log stay small, and one of `causes` is counted in the metrics and named in the log.
    """

    name: str
    finding: str  # round and number, such as "2.1"
    tried: str
    promised: str
    run: Callable[[Place], tuple[str, str]]
    causes: tuple[str, ...] = ()  # empty: nothing is cut off or refused
    keys: bool = False  # the server demands them; the attacker has the one of `THIEF`
    descriptors: int = 0  # that the server may open; 0: as many as here


@contextlib.contextmanager
def calm_server(folder: Path) -> Iterator[str]:
    """The endpoint of a server that nobody attacks."""
    other = folder / "undisturbed"
    other.mkdir()
    with place_of(other, keys=False, robots=0) as place:
        yield place.endpoint


@contextlib.contextmanager
def undisturbed(folder: Path, robots: int, calm: str = "") -> Iterator[ServedRequests]:
    """As many robots at a server that nobody attacks: what they miss is the machine's fault.

    `calm`: the endpoint of one that runs already, where others have been before; empty: start one.
    """
    with contextlib.ExitStack() as stack:
        endpoint = calm or stack.enter_context(calm_server(folder))
        first = robots * next(COMERS)  # names of those before are theirs for a while
        yield stack.enter_context(serving_well(endpoint, robots, first=first))


@contextlib.contextmanager
def place_of(folder: Path, keys: bool, robots: int, descriptors: int = 0) -> Iterator[Place]:
    """A running server, with keys for the robots and the thief where it has any."""
    key_folder = folder / "keys" if keys else None
    if key_folder is not None:
        for name in (*map(name_of, range(robots)), THIEF, VICTIM):
            make_keys(key_folder, name)
    factory = FACTORY.format(more=f', curve_keys: "{key_folder}"' if key_folder else "")
    with server(folder, factory, descriptors) as (process, endpoint, metrics_port, log):
        yield Place(endpoint, metrics_port, psutil.Process(process.pid), log, key_folder)


def run_beside(
    attempt: Attempt,
    folder: Path,
    robots: int = 4,
    min_in_time: float = MIN_IN_TIME,
    min_attack_s: float = MIN_ATTACK_S,
    calm: str = "",
) -> AttemptOutcome:
    """The attack beside well-behaved robots; `calm`: as for `undisturbed`."""
    outcome = AttemptOutcome("")
    with (
        place_of(folder, attempt.keys, robots, attempt.descriptors) as place,
        undisturbed(folder, robots, calm) as outcome.undisturbed,
    ):
        key_folder = "" if place.keys is None else str(place.keys)
        with serving_well(place.endpoint, robots, key_folder) as outcome.served:
            time.sleep(SETTLE_S)
            lines, began_s = len(place.log.read_text().splitlines()), time.monotonic()
            with peak_mb(place) as peak:
                before_mb = place.resident_mb()
                outcome.words, broken = at_low_priority(lambda: again_and_again(attempt, place, min_attack_s))
            outcome.growth_mb = max(peak, default=0.0) - before_mb
            spent_s = time.monotonic() - began_s
            said = len(place.log.read_text().splitlines()) - lines
            time.sleep(SETTLE_S)
            outcome.seen = seen(place) if place.alive() else {}
        logged, ended = place.log.read_text(), not place.alive()
        named = [cause for cause in attempt.causes if outcome.seen.get(cause) and f'"{cause}"' in logged]
    share = outcome.served.share / max(1e-9, outcome.undisturbed.share)
    checks = (
        (broken, bool(broken)),
        ("the server ended", ended),
        ("a traceback", "Traceback" in logged),
        ("a worker was lost", '"worker_lost"' in logged),
        (f"{share:.1%} of what is in time elsewhere", share < min_in_time),
        (f"{outcome.growth_mb:+.0f} MB", outcome.growth_mb > MAX_GROWTH_MB),
        (f"{said} log lines in {spent_s:.0f} s", said > MAX_LINES_PER_S * (1 + spent_s)),
        (f"none of {', '.join(attempt.causes)} in log and metrics", bool(attempt.causes) and not named),
    )
    outcome.failures = [words for words, failed in checks if failed]
    return outcome


def again_and_again(attempt: Attempt, place: Place, seconds: float) -> tuple[str, str]:
    """What happened last, or first failed."""
    end_s = time.monotonic() + seconds
    while True:
        words, broken = attempt.run(place)
        if broken or not place.alive() or time.monotonic() >= end_s:
            return words, broken


def as_lowest_priority() -> None:
    """This thread, and those that it starts, run when nobody else wants to: hostile peers have their own machines."""
    os.setpriority(os.PRIO_PROCESS, 0, 19)  # on Linux of the thread


def at_low_priority(attack: Callable[[], tuple[str, str]]) -> tuple[str, str]:
    """Run it in a thread of the lowest priority."""
    happened: list[tuple[str, str]] = []

    def run() -> None:
        as_lowest_priority()
        happened.append(attack())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return happened[0] if happened else ("the attempt failed itself", "the attempt failed itself")


@contextlib.contextmanager
def peak_mb(place: Place) -> Iterator[list[float]]:
    """Samples of the gateway's memory while this runs."""
    samples: list[float] = []
    stop = threading.Event()

    def run() -> None:
        while not stop.wait(SAMPLE_S):
            samples.append(place.resident_mb())

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield samples
    finally:
        stop.set()
        thread.join(5)


def seen(place: Place) -> dict[str, int]:
    """What the metrics say was cut off or refused, by cause."""
    counts: dict[str, int] = {}
    for name, value in place.counted().items():
        if name.startswith(("rosa_connections_cut_off_total{", "rosa_refused_total{")):
            cause = name.split('"')[1]
            counts[cause] = counts.get(cause, 0) + int(value)
    return counts
