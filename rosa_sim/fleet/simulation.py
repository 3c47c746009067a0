"""The fleet under one simulated clock: robots and links, and the server side (`cluster.py`). Deterministic by seed.

Messages are the contract's, as the gateway sees them before and after the codec; nothing is encoded. After each instant
with events for the gateway, and whenever its core says so, the core is ticked, as the gateway's loop does.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf
from random import Random
from typing import Any

from rosa_client.connection.greeting import Greeting
from rosa_client.runtime.commands import Ask, CallEnded, TaskEnded
from rosa_contract.config.cameras import CameraSpec
from rosa_contract.config.factory import Factory
from rosa_contract.config.robot import JointLimits, RobotSpec
from rosa_contract.config.tasks import Task
from rosa_contract.wire.messages import Cancel, Hello, Ready, TaskEnds, ToRobot
from rosa_contract.wire.progress import packed_progress
from rosa_sim.fleet.cluster import BATCH_ENDS, CALL, TO_GATEWAY, TO_ROBOT, WAKE, Cluster, Serving
from rosa_sim.fleet.network import IDEAL, Network, Way
from rosa_sim.fleet.robot import ANY_TIME, Habits, Observer, ToSend, VirtualRobot

ROBOT = RobotSpec(
    name="virtual",
    joints=("joint",),
    limits=JointLimits((-1.0,), (1.0,), (1.0,), (1.0,), (1.0,)),
    cameras={"front": CameraSpec(96, 96)},
    home_rad=(0.0,),
    safe_rad=(0.0,),
)
NO_FRAMES = (b"",)
SAID_TO_GATEWAY = (TO_GATEWAY, BATCH_ENDS)


@dataclass(frozen=True)
class Joining:
    """One robot of the fleet: its task, when that begins, and when the robot says hello; usually just then."""

    name: str
    task: str
    start_s: float
    hello_s: float | None = None


@dataclass
class _Seat:
    """A robot with its two ways and the time of its next wake-up in the heap."""

    robot: VirtualRobot
    link: Greeting
    connection: bytes
    up: Way
    down: Way
    wake_s: float = inf


class Simulation(Cluster):
    """Runs until told to stop. `events` counts what the clock stopped at."""

    def __init__(
        self,
        serving: Serving,
        robots: Iterable[Joining],
        observer: Observer,
        network: Network = IDEAL,
        habits: Habits = ANY_TIME,
        seed: int = 0,
        window: tuple[float, float] = (0.0, inf),
        watch: Callable[[float, Any], None] | None = None,
    ) -> None:
        """`window`: when GPU time counts. `watch` sees every action of the serving core, with its time."""
        super().__init__(serving, seed, window, watch)
        self.events = 0
        self.robots: dict[str, VirtualRobot] = {}
        self._observer, self._network, self._habits = observer, network, habits
        self._seats: dict[bytes, _Seat] = {}
        for robot in robots:
            self.join(robot)

    # -- what the world does -------------------------------------------------------------------------------------------

    def join(self, joining: Joining) -> None:
        """Switch a robot on at its time."""
        name, task = joining.name, self._serving.factory.tasks[joining.task]
        rng = Random(f"{self._seed} {name}")
        link = Greeting("the simulated gateway", Hello(name, joining.task, {}, {}))
        phase_s = joining.start_s + rng.random() * max(
            self._habits.control_period_s, self._habits.camera_period_s
        )
        robot = self._new_robot(name, task, link, phase_s)
        seat = _Seat(robot, link, name.encode(), Way(self._network, rng), Way(self._network, rng))
        self._seats[seat.connection] = seat
        self.robots[name] = robot
        if joining.hello_s is not None and joining.hello_s < joining.start_s:
            self._at(joining.hello_s, CALL, self._wake_link, seat)
        self._at(joining.start_s, CALL, self._begin, seat)

    def network_becomes(self, network: Network) -> None:
        """The way between every robot and the gateway is another one from now on."""
        self._network = network
        for seat in self._seats.values():
            seat.up.becomes(network)
            seat.down.becomes(network)

    def _new_robot(self, name: str, task: Task, link: Greeting, phase_s: float) -> VirtualRobot:
        return VirtualRobot(name, task, ROBOT, link, self._observer, self._habits, phase_s)

    def run(self, until_s: float) -> None:
        """Let time pass until `until_s`."""
        heap = self._heap
        pop = heapq.heappop
        self._tick_core()
        told = False  # the core has heard something since its last tick
        while heap and heap[0][0] <= until_s:
            now_s, _, kind, subject, what = pop(heap)
            self.now_s = now_s
            self.events += 1
            if kind == WAKE:
                self._wake(now_s, subject)
            elif kind == TO_ROBOT:
                self._to_robot(now_s, subject, what)
            elif kind == CALL:
                subject(now_s, what)
                self._tick_core()
            else:
                if kind == TO_GATEWAY:
                    self._to_gateway(now_s, subject, what)
                    told = True
                elif kind == BATCH_ENDS:
                    # Of several calls that run together, each that begins or ends moves the others' ends.
                    if what is not None or now_s == subject.shared.next_s:
                        self._batch_ends(now_s, subject, what)
                        told = True
                elif now_s == self._core_wake_s:  # else it has been ticked since
                    told = True
                if told and not (heap and heap[0][0] == now_s and heap[0][2] in SAID_TO_GATEWAY):
                    told = False
                    self._tick_core()
        self.now_s = until_s

    # -- robots --------------------------------------------------------------------------------------------------------

    def _wake_link(self, now_s: float, seat: _Seat) -> None:
        if seat.link.hello_is_due(now_s):
            self._send(now_s, seat, seat.link.hello)
        self._requests(now_s, seat, ())

    def _begin(self, now_s: float, seat: _Seat) -> None:
        if seat.link.hello_is_due(now_s):
            self._send(now_s, seat, seat.link.hello)
        self._requests(now_s, seat, seat.robot.start(now_s))

    def _wake(self, now_s: float, seat: _Seat) -> None:
        if now_s != seat.wake_s:
            return  # another one counts
        seat.wake_s = inf
        link, robot = seat.link, seat.robot
        sends: list[ToSend] = []
        if now_s >= link.next_due_s():
            was_ready = link.ready
            if link.hello_is_due(now_s):
                self._send(now_s, seat, link.hello)
            if link.ready != was_ready:
                sends = robot.linked(now_s)
        if now_s >= robot.due_s:
            sends = sends + robot.tick(now_s)
        self._requests(now_s, seat, sends)

    def _to_robot(self, now_s: float, seat: _Seat, message: ToRobot) -> None:
        link = seat.link
        link.heard(now_s)
        response = link.take(message)
        if response is None:
            self._requests(now_s, seat, seat.robot.linked(now_s))
        else:
            self._requests(now_s, seat, seat.robot.receive(response, now_s))

    def _requests(self, now_s: float, seat: _Seat, sends: Sequence[ToSend]) -> None:
        for send in sends:
            if isinstance(send, Ask):
                self._send(now_s, seat, Ready(send.component))
                continue
            if isinstance(send, CallEnded):
                if seat.link.ready and seat.link.cancels:
                    self._send(now_s, seat, Cancel(send.request_id))
                continue
            if isinstance(send, TaskEnded):
                if seat.link.ready and seat.link.tasks:
                    self._send(now_s, seat, TaskEnds(send.task, send.outcome))
                continue
            header = {"i": send.request_id, "c": send.component, "b": send.budget_ms, "m": [], "s": {}}
            if send.progress is not None and seat.link.tasks:
                header["k"] = packed_progress(send.progress)
            self._send(now_s, seat, header)
        wake_s = max(now_s, min(seat.robot.due_s, seat.link.next_due_s()))
        if wake_s != seat.wake_s:  # the former one is passed over when its time comes
            seat.wake_s = wake_s
            if wake_s < inf:
                self._at(wake_s, WAKE, seat, None)

    def _send(self, now_s: float, seat: _Seat, message: Any) -> None:
        seat.link.sent(now_s)
        arrives_s = seat.up.arrives_s(now_s)
        if arrives_s is not None:
            self._at(arrives_s, TO_GATEWAY, seat, message)

    # -- messages ------------------------------------------------------------------------------------------------------

    def _to_gateway(self, now_s: float, seat: _Seat, message: Any) -> None:
        if type(message) is dict:
            self.core.on_request(now_s, seat.connection, message, NO_FRAMES)
        else:
            self.core.on_robot(now_s, seat.connection, message)

    def _say(self, now_s: float, connection: bytes, message: ToRobot) -> None:
        seat = self._seats[connection]
        arrives_s = seat.down.arrives_s(now_s)
        if arrives_s is not None:
            self._at(arrives_s, TO_ROBOT, seat, message)


def tasks_of(factory: Factory, robots: Iterable[Joining]) -> dict[str, Task]:
    """Robot -> its task."""
    return {robot.name: factory.tasks[robot.task] for robot in robots}
