"""One small trace, played through the simulator and over real sockets: what each decided, call by call.

Three robots on two System 1 servers and one monitor. What happens is the same in both: a monitor that answers two
robots at once is too slow for its SLO (late results), one request never leaves its robot, and one worker is killed.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from rosa_contract.clock import MonotonicClock
from rosa_contract.config.factory import Factory, parse_factory
from rosa_contract.config.tasks import SYSTEM1
from rosa_contract.process import die_with
from rosa_server.plan.placement import Placement, Replica
from rosa_server.simulator.network import Network
from rosa_server.simulator.servers import Serving
from rosa_server.timing.batches import BatchProfile
from rosa_sim.fleet.live import LiveFleet
from rosa_sim.fleet.live_server import LiveServer
from rosa_sim.fleet.record import CallRecord
from rosa_sim.fleet.simulation import Joining, Simulation, tasks_of

FACTORY = parse_factory("""
server_cluster: {num_servers: 3}
robot_fleet: [{task: sort, num_robots: 2}, {task: pack, num_robots: 1}]
sort:
  pipeline: {action_period_ms: 725}
  components:
    system1: {model: policy, slo_ms: 300}
    monitor: {model: watcher, slo_ms: 350, freq_hz: 1.0, fallback: stop_and_resend}
pack:
  pipeline: {action_period_ms: 800}
  components:
    system1: {model: policy, slo_ms: 400}
    monitor: {model: watcher, slo_ms: 700, freq_hz: 0.8, fallback: stop_and_resend}
""")
REPLICAS = {
    "left": Replica("left", "policy", "left", batch=2, deadline_aware=False),
    "right": Replica("right", "policy", "right", batch=2, deadline_aware=False),
    "watch": Replica("watch", "watcher", "watch", batch=2, deadline_aware=False),
}
ROUTES = {
    "sort/0": {"system1": "left", "monitor": "watch"},
    "sort/1": {"system1": "right", "monitor": "watch"},
    "pack/0": {"system1": "left", "monitor": "watch"},
}
SERVICES = {
    "left": BatchProfile({1: 120.0, 2: 160.0}),
    "right": BatchProfile({1: 200.0, 2: 260.0}),
    "watch": BatchProfile({1: 150.0, 2: 420.0}),
}
ROBOTS = [Joining("sort-0", "sort", 0.0), Joining("sort-1", "sort", 0.10), Joining("pack-0", "pack", 0.54)]
LOST = (("sort-1", 5),)
KILL_S, END_S = 3.27, 3.72
TOLERANCE_S = 0.05  # of nine in ten times, as `times` has them
USUAL_S = 0.025  # of the median time of one kind: a robot's calls to a component, or a worker's batches
ENOUGH = 3  # times for a median
KEPT_APART_S = 0.025
WAY_MS = 0.5  # of a message, between a robot and its gateway, where nothing is slow
MAX_SLOWER_MS = 12.0  # of a round: with more, it is not the machine
NOTICED_S = 0.04  # a killed worker is noticed within one look at the cluster, every 0.05 s


def serving() -> Serving:
    return Serving(FACTORY, Placement(REPLICAS, ROUTES), SERVICES)


TIERS_FACTORY = parse_factory("""
server_cluster: {num_servers: 2}
robot_fleet: [{task: sort, num_robots: 3}, {task: pack, num_robots: 1}]
sort:
  pipeline: {action_period_ms: 850}
  components: {system1: {model: policy, slo_ms: 1000}}
pack:
  pipeline: {action_period_ms: 1000}
  components: {system1: {model: policy, slo_ms: 1000}}
""")
TIERS_ROBOTS = [
    Joining("sort-0", "sort", 0.0),
    Joining("pack-0", "pack", 0.10),  # waits for 0.2 s, sooner than an answer from the cloud in 0.26 s
    Joining("sort-1", "sort", 0.16),  # would wait for 0.44 s
    Joining("sort-2", "sort", 0.27),  # would wait for 0.33 s
]
TIERS_END_S = 1.95


def tiers() -> Serving:
    """One server at the edge and a faster one in the cloud, 100 ms away."""
    edge = Replica("edge", "policy", "edge", batch=1, pool="policies", service_ms={1: 300.0})
    cloud = Replica("cloud", "policy", "cloud", batch=1, pool="policies", service_ms={1: 60.0}, link_ms=100.0)
    slots = ("sort/0", "sort/1", "sort/2", "pack/0")
    placement = Placement({"edge": edge, "cloud": cloud}, {slot: {"system1": "edge"} for slot in slots})
    services = {"edge": BatchProfile({1: 300.0}), "cloud": BatchProfile({1: 60.0})}
    return Serving(TIERS_FACTORY, placement, services)


CANCEL_FACTORY = parse_factory("""
server_cluster: {num_servers: 2}
robot_fleet: [{task: sort, num_robots: 1}, {task: pack, num_robots: 2}]
sort:
  pipeline: {action_period_ms: 800}
  components:
    system1: {model: policy, slo_ms: 2000}
    monitor: {model: watcher, slo_ms: 200, freq_hz: 1.0, fallback: stop_and_resend}
pack:
  pipeline: {action_period_ms: 800}
  components: {system1: {model: policy, slo_ms: 2000}}
""")
CANCEL_ROBOTS = [
    Joining(
        "sort-0", "sort", 0.0
    ),  # its monitor is missed at 0.2 s: the arm stops, and its System 1 call is cancelled
    Joining("pack-0", "pack", 0.05),
    Joining("pack-1", "pack", 0.10),  # waits: the worker runs two calls at a time
]
CANCEL_END_S = 0.95


def cancelling() -> Serving:
    """A System 1 worker that runs two calls at a time, and a monitor that is too slow."""
    replicas = {
        "policy": Replica("policy", "policy", "policy", batch=1, at_once=2),
        "watch": Replica("watch", "watcher", "watch", batch=1, deadline_aware=False),
    }
    routes = {"sort/0": {"system1": "policy", "monitor": "watch"}}
    routes |= {f"pack/{number}": {"system1": "policy"} for number in range(2)}
    services = {"policy": BatchProfile({1: 500.0, 2: 700.0}), "watch": BatchProfile({1: 330.0})}
    return Serving(CANCEL_FACTORY, Placement(replicas, routes), services)


def recorded(factory: Factory = FACTORY, robots: Sequence[Joining] = tuple(ROBOTS)) -> CallRecord:
    """An empty record of these robots."""
    return CallRecord(tasks_of(factory, robots))


class LossyNetwork(Simulation):
    """Requests that never leave their robots."""

    drop: Collection[tuple[str, int]] = LOST

    def _requests(self, now_s: float, seat: Any, sends: Any) -> None:
        leave = [send for send in sends if (seat.robot.name, send.request_id) not in self.drop]
        super()._requests(now_s, seat, leave)


def as_slow_as(live: CallRecord, simulate: Callable[[float], CallRecord]) -> CallRecord:
    """The trace simulated with a network on which a round takes as long as it took in `live`.

    A call passes eight times from one thread or process to the next. Each time takes a tenth of a millisecond where
    caches are warm, and a whole one on a machine that others use, too. A robot's rounds follow each other: after ten of
    them it is 60 ms late, which says nothing of what was decided.
    """
    slower_ms = [
        1000 * (later - earlier)
        for ours, theirs in zip(_rounds(simulate(WAY_MS)), _rounds(live), strict=True)
        for earlier, later in zip(ours, theirs, strict=False)
    ]
    return simulate(WAY_MS + min(MAX_SLOWER_MS, max(0.0, median(slower_ms))) / 2)


def close(expected: CallRecord, found: CallRecord) -> list[str]:
    """What is not at the same time in two records; empty: all of it is, as far as a machine with others' work allows.

    The machine may delay single events: one in ten by more than `TOLERANCE_S`, none by three times as much. It makes
    none early, and what is late every time is not the machine. Raises `KeyError` where a record lacks an event.
    """
    ours, theirs = times(expected), times(found)
    if unlike := sorted(map(str, ours.keys() ^ theirs.keys())):
        raise KeyError(f"only in one of two records: {unlike}")
    by_s = {key: theirs[key] - at_s for key, at_s in ours.items()}
    wrong = [key for key in by_s if by_s[key] < -TOLERANCE_S or by_s[key] > 3 * TOLERANCE_S]
    late = [key for key in by_s if TOLERANCE_S < by_s[key] <= 3 * TOLERANCE_S]
    wrong += late if len(late) > len(by_s) / 10 else []
    groups: dict[tuple[object, ...], list[float]] = {}
    for key, late_s in by_s.items():
        of = key[:2] if key[0] == "given" else key[:3]
        groups.setdefault(of, []).append(late_s)
    usual = {of: median(found_s) for of, found_s in groups.items() if len(found_s) >= ENOUGH}
    return [f"{key}: by {by_s[key]:.3f} s" for key in wrong] + [
        f"{of}: usually by {late_s:.3f} s" for of, late_s in usual.items() if abs(late_s) > USUAL_S
    ]


def times(record: CallRecord) -> dict[tuple[object, ...], float]:
    """When each call was sent, ended and given to a worker: after the robot's call before it, and after it was sent.

    Not after the start of the trace: a robot that this machine made late once is as late in all that follows, which
    says nothing of what was decided.
    """
    found: dict[tuple[object, ...], float] = {}
    given: Counter[object] = Counter()
    sent_s: dict[tuple[str, int], float] = {}
    last_s: dict[tuple[str, str], float] = {}
    for at_s, robot, component, request in record.sends:
        if (robot, component) in last_s:  # else the trace has begun
            found["sent", robot, component, request] = at_s - last_s[robot, component]
        sent_s[robot, request] = last_s[robot, component] = at_s
    for at_s, robot, component, request, ending in record.ends:
        found["ended", robot, component, request, ending] = at_s - sent_s[robot, request]
    for at_s, replica, calls in record.batches:
        given[replica, calls] += 1
        found["given", replica, calls, given[replica, calls]] = at_s - max(sent_s[call] for call in calls)
    return found


def _rounds(record: CallRecord) -> list[list[float]]:
    """Of each robot: the times between one System 1 call and the next."""
    robots = sorted({robot for _, robot, *_ in record.sends})
    sent = ([row[0] for row in record.sends if row[1:3] == (robot, SYSTEM1)] for robot in robots)
    return [[later - earlier for earlier, later in pairwise(times)] for times in sent]


def simulated(way_ms: float = WAY_MS) -> CallRecord:
    """The trace under the simulated clock."""
    record = recorded()
    simulation = LossyNetwork(serving(), ROBOTS, record, Network(way_ms), watch=record.watch)
    simulation.at(KILL_S + NOTICED_S / 2, lambda now_s: simulation.lose_server("right", now_s))
    simulation.run(END_S)
    return record


def simulated_tiers(way_ms: float = WAY_MS) -> CallRecord:
    """The tiers under the simulated clock."""
    record = recorded(TIERS_FACTORY, TIERS_ROBOTS)
    simulation = Simulation(tiers(), TIERS_ROBOTS, record, Network(way_ms), watch=record.watch)
    simulation.run(TIERS_END_S)
    return record


def simulated_cancelling(way_ms: float = WAY_MS) -> CallRecord:
    """The cancelled call under the simulated clock."""
    record = recorded(CANCEL_FACTORY, CANCEL_ROBOTS)
    network = Network(way_ms)
    Simulation(cancelling(), CANCEL_ROBOTS, record, network, watch=record.watch).run(CANCEL_END_S)
    return record


def stalls(stop: threading.Event) -> float:
    """The longest time that this machine gave no processor to a thread that wanted one, until `stop`."""
    longest_s, last_s = 0.0, time.monotonic()
    while not stop.wait(0.002):
        now_s = time.monotonic()
        longest_s, last_s = max(longest_s, now_s - last_s), now_s
    return longest_s


def undisturbed(
    play: Callable[[Path], tuple[CallRecord, float]], folders: pytest.TempPathFactory
) -> CallRecord:
    """Play it again when the machine itself stood still for longer than the trace keeps its events apart.

    It is played in a session of its own, since Linux shares the cores out by session (autogroup): beside two busy loops
    in the same one, a thread waits for up to 33 ms for its turn, and for up to 12 ms in its own.
    """
    with ProcessPoolExecutor(
        1, get_context("spawn"), initializer=_leave, initargs=(os.getpid(),)
    ) as own_session:
        for _ in range(8):
            record, stalled_s = own_session.submit(play, folders.mktemp("live")).result()
            if stalled_s < KEPT_APART_S:
                break
    return record


def _leave(parent_pid: int) -> None:
    """To a session of its own, and no longer than the process that tests."""
    os.setsid()
    die_with(parent_pid)


def live(folder: Path) -> tuple[CallRecord, float]:
    """The trace over ZeroMQ, with a real gateway and worker processes; and the machine's longest stall meanwhile."""
    # What was lost stays lost: a worker that starts again takes longer than the rest of the trace.
    server = LiveServer(serving(), folder, load_s=2 * (END_S - KILL_S))
    return _live(server, FACTORY, ROBOTS, END_S, KILL_S, LOST)


def live_tiers(folder: Path) -> tuple[CallRecord, float]:
    """The tiers over ZeroMQ; the messages of the worker in the cloud take 100 ms each way."""
    return _live(LiveServer(tiers(), folder), TIERS_FACTORY, TIERS_ROBOTS, TIERS_END_S, float("inf"), ())


def live_cancelling(folder: Path) -> tuple[CallRecord, float]:
    """The cancelled call over ZeroMQ, with a worker process that is told of it."""
    return _live(
        LiveServer(cancelling(), folder), CANCEL_FACTORY, CANCEL_ROBOTS, CANCEL_END_S, float("inf"), ()
    )


def _live(
    server: LiveServer,
    factory: Factory,
    robots: Sequence[Joining],
    end_s: float,
    lose_s: float,
    drop: Collection[tuple[str, int]],
) -> tuple[CallRecord, float]:
    record = recorded(factory, robots)
    clock = MonotonicClock()
    stop = threading.Event()
    kill_s = [float("inf")]

    def serve() -> None:
        while not stop.is_set():
            if clock.now_s() >= kill_s[0]:
                kill_s[0] = float("inf")
                server.lose("right")
            server.step()

    try:
        patience_s = clock.now_s() + 60.0
        while not server.ready:
            server.step()
            assert clock.now_s() < patience_s, "the workers did not start within a minute"
        started_s = clock.now_s() + 0.1
        record.started_s = started_s
        server.core.watch = record.watch
        kill_s[0] = started_s + lose_s
        thread = threading.Thread(target=serve)
        thread.start()
        watcher = ThreadPoolExecutor(1)
        stalled = watcher.submit(stalls, stop)
        try:
            fleet = LiveFleet(server.gateway.robots_endpoint, factory, robots, record, started_s, drop=drop)
            fleet.run(started_s + end_s)
            server.core.watch = None  # what follows is the end, and no part of the trace
            fleet.close()
        finally:
            stop.set()
            thread.join(10.0)
            watcher.shutdown()
    finally:
        server.close()
    return record, stalled.result()
