"""The fleet over real sockets: many virtual robots in this process, the gateway and its workers in others."""

from __future__ import annotations

import heapq
import json
import multiprocessing
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from math import inf
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import zmq

from rosa_client.connection.link import GatewayLink
from rosa_client.connection.session_token import SessionToken
from rosa_client.runtime.commands import Ask, CallEnded, TaskEnded
from rosa_contract.clock import MonotonicClock
from rosa_contract.config.factory import Factory
from rosa_contract.errors import ContractError
from rosa_contract.wire.messages import Hello, Request
from rosa_sim.fleet.execute import joinings, server_of
from rosa_sim.fleet.live_server import LOG, serve_until_told, shares_gpus
from rosa_sim.fleet.measure import Meter, Outcome
from rosa_sim.fleet.record import CallRecord, batches_from
from rosa_sim.fleet.robot import ANY_TIME, Habits, Observer, ToSend, VirtualRobot
from rosa_sim.fleet.scenario import Scenario
from rosa_sim.fleet.simulation import ROBOT, Joining, tasks_of
from rosa_sim.fleet.systems import System

WARM_UP_S = 60.0  # until every worker has started
LONGEST_POLL_S = 0.05
Say = Callable[[str], None]


class LiveError(ContractError):
    """The live server did not start."""


@dataclass
class _Seat:
    number: int
    robot: VirtualRobot
    link: GatewayLink
    start_s: float
    started: bool = False
    wake_s: float = inf


class LiveFleet:
    """Robots of one process, each with its own connection. Times are of the machine's monotonic clock."""

    def __init__(
        self,
        endpoint: str,
        factory: Factory,
        robots: Iterable[Joining],
        observer: Observer,
        started_s: float,
        habits: Habits = ANY_TIME,
        drop: Collection[tuple[str, int]] = (),
        tokens: Path | None = None,
    ) -> None:
        """`started_s`: what the robots' start times count from. `drop`: (robot, request) that never leave. `tokens`:
        folder that keeps their sessions' tokens, so that robots whose process crashed get their names again."""
        self._clock = MonotonicClock()
        self._drop = frozenset(drop)
        self._poller = zmq.Poller()
        self._seats: list[_Seat] = []
        self._by_socket: dict[zmq.Socket[bytes], _Seat] = {}
        self._heap: list[tuple[float, int]] = []
        self.messages = 0
        for joining in robots:
            token = None if tokens is None else SessionToken(tokens, endpoint, joining.name)
            link = GatewayLink(endpoint, Hello(joining.name, joining.task, {}, {}), token=token)
            start_s = started_s + joining.start_s
            phase_s = start_s + Random(joining.name).random() * max(
                habits.control_period_s, habits.camera_period_s
            )
            task = factory.tasks[joining.task]
            robot = VirtualRobot(joining.name, task, ROBOT, link, observer, habits, phase_s)
            robot.due_s = start_s
            seat = _Seat(len(self._seats), robot, link, start_s)
            self._seats.append(seat)
            self._by_socket[link.socket] = seat
            self._poller.register(link.socket, zmq.POLLIN)
            hello_s = joining.start_s if joining.hello_s is None else joining.hello_s
            self._wake_at(seat, started_s + hello_s)

    @property
    def welcomed(self) -> int:
        return sum(seat.link.ready for seat in self._seats)

    def run(self, until_s: float) -> None:
        """Let the robots work until `until_s`."""
        while (now_s := self._clock.now_s()) < until_s:
            while self._heap and self._heap[0][0] <= now_s:
                at_s, number = heapq.heappop(self._heap)
                if at_s == self._seats[number].wake_s:
                    self._wake(self._seats[number])
            next_s = self._heap[0][0] if self._heap else inf
            wait_s = min(next_s, until_s, now_s + LONGEST_POLL_S) - self._clock.now_s()
            ready = self._poller.poll(max(0, int(wait_s * 1000)))
            for socket, _ in ready:
                self._serve(self._by_socket[socket])
            if not ready and 0 < wait_s < 0.001:
                time.sleep(wait_s)  # less than a poll can wait

    def close(self) -> None:
        for seat in self._seats:
            self._poller.unregister(seat.link.socket)
            seat.link.close()

    def _wake(self, seat: _Seat) -> None:
        now_s = self._clock.now_s()
        if not seat.started and now_s >= seat.start_s:
            seat.started = True
            self._serve(seat, begins=True)
            return
        if now_s >= seat.link.next_due_s() or not seat.started:
            self._serve(seat)
            return
        self._send(seat, seat.robot.tick(now_s), now_s)
        self._plan(seat)

    def _serve(self, seat: _Seat, begins: bool = False) -> None:
        """Read what has come, say hello when it is due, and let the core know what has changed."""
        now_s = self._clock.now_s()
        link, robot = seat.link, seat.robot
        before = (link.ready, link.reason, link.rates_hz, link.permit_s)
        responses = link.poll(0.0, now_s)
        self.messages += len(responses)
        sends: list[ToSend] = list(robot.start(now_s)) if begins else []
        for response in responses:
            link.answered(now_s, response)
            sends += robot.receive(response, now_s)
        if seat.started and (link.ready, link.reason, link.rates_hz, link.permit_s) != before:
            sends += robot.linked(now_s)
        elif seat.started and robot.due_s <= now_s:
            sends += robot.tick(now_s)
        self._send(seat, sends, now_s)
        self._plan(seat)

    def _send(self, seat: _Seat, sends: Sequence[ToSend], now_s: float) -> None:
        for send in sends:
            if isinstance(send, Ask):
                seat.link.ask(send.component, now_s)
            elif isinstance(send, CallEnded):
                seat.link.cancel(send.request_id, now_s)
            elif isinstance(send, TaskEnded):
                seat.link.task_ends(send.task, send.outcome, now_s)
            elif (seat.robot.name, send.request_id) not in self._drop:
                about = (send.request_id, send.component, send.budget_ms, send.prompt)
                request = Request(*about, overlap=send.overlap, progress=send.progress)
                seat.link.send(request, now_s)
                self.messages += 1

    def _plan(self, seat: _Seat) -> None:
        wake_s = min(seat.robot.due_s, seat.link.next_due_s())
        if wake_s != seat.wake_s:
            self._wake_at(seat, wake_s)

    def _wake_at(self, seat: _Seat, wake_s: float) -> None:
        seat.wake_s = wake_s
        if wake_s < inf:
            heapq.heappush(self._heap, (wake_s, seat.number))


def live_runner(scenario: Scenario, say: Say) -> Callable[[System, Factory, str, int], Outcome | str]:
    """Runs a system over sockets in real time; a text says why it cannot."""

    def run(system: System, factory: Factory, start: str, seed: int) -> Outcome | str:
        assert system.serving is not None
        if shares_gpus(system.serving):
            return "several models take turns on one GPU: simulated only"
        if scenario.joined:
            return "robots that join later: simulated only"
        if scenario.network.jitter_ms or scenario.network.loss:
            return "the network between processes of one machine is what it is: simulated only"
        return run_live(scenario, factory, system, start, seed, say)

    return run


def run_live(
    scenario: Scenario,
    factory: Factory,
    system: System,
    start: str,
    seed: int,
    say: Say | None = None,
    record: CallRecord | None = None,
) -> Outcome:
    """One run in real time: a gateway process with emulated workers, and every robot in this one.

    `record` gets every call and batch; its window is from now on the scenario's.
    """
    assert system.serving is not None
    fork = multiprocessing.get_context("fork")
    ours, theirs = fork.Pipe()
    losses = [(lost.at_s, server_of(system, lost.component)) for lost in scenario.lost_servers]
    with TemporaryDirectory(prefix="rosa-fleet-") as folder:
        arguments = (system.serving, losses, theirs, Path(folder), record is not None)
        server = fork.Process(target=serve_until_told, args=arguments)
        server.start()
        theirs.close()
        try:
            if not ours.poll(WARM_UP_S):
                tail = (Path(folder) / LOG).read_text().splitlines()[-3:]
                raise LiveError(f"the live server was not warm within {WARM_UP_S:g} s: {' '.join(tail)}")
            robots = joinings(factory, system, start, seed)
            return _run_robots(scenario, factory, system, robots, ours, say, record)
        finally:
            ours.close()
            server.join(WARM_UP_S)
            if server.is_alive():
                server.kill()


def _run_robots(
    scenario: Scenario,
    factory: Factory,
    system: System,
    robots: Sequence[Joining],
    server: Connection,
    say: Say | None,
    record: CallRecord | None,
) -> Outcome:
    """The robots' side of a run against a server that is warm."""
    assert system.serving is not None
    endpoint = server.recv_bytes().decode()
    begun_s = MonotonicClock().now_s() + 0.2
    end_s = begun_s + scenario.warm_up_s + scenario.seconds
    window = (begun_s + scenario.warm_up_s, end_s)
    server.send_bytes(json.dumps([begun_s, *window]).encode())
    if record is not None:
        record.started_s, record.from_s, record.to_s = begun_s, *window
    meter = record or Meter(tasks_of(factory, robots), *window)
    fleet = LiveFleet(endpoint, factory, robots, meter, begun_s, scenario.body.habits)
    try:
        _watch(fleet, begun_s, end_s, f"live: {system.name}, {len(robots)} robots", say)
        served = fleet.welcomed
    finally:
        fleet.close()
    server.send_bytes(b"end")
    told = json.loads(server.recv_bytes()) if server.poll(WARM_UP_S) else {}
    busy_s: dict[str, float] = told.get("busy_s", {})
    if record is not None:
        record.batches = batches_from(told.get("batches", ()))
    servers = {replica.server for replica in system.serving.placement.replicas.values()}
    utilisation = {server: busy_s.get(server, 0.0) / meter.seconds for server in sorted(servers)}
    return meter.outcome(utilisation, served, fleet.messages, end_s - begun_s)


def _watch(fleet: LiveFleet, begun_s: float, end_s: float, what: str, say: Say | None) -> None:
    now_s = begun_s
    while now_s < end_s:
        now_s = min(end_s, now_s + 1.0)
        fleet.run(now_s)
        if say is not None:
            say(f"{what}: {now_s - begun_s:.0f} of {end_s - begun_s:.0f} s")
