"""The fleet under one simulated clock: robots, links, the gateway's `ServingCore`, and workers. Deterministic by seed.

Messages are the contract's, as the gateway sees them before and after the codec; nothing is encoded. After each instant
with events for the gateway, and whenever its core says so, the core is ticked, as the gateway's loop does.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from random import Random
from typing import Any

import numpy as np

from rosa_client.greeting import Greeting
from rosa_client.runtime.commands import Ask, CallEnded
from rosa_contract.cameras import CameraSpec
from rosa_contract.config import Factory, Task
from rosa_contract.messages import (
    Cancel,
    Executed,
    Hello,
    Output,
    Ready,
    Response,
    ToRobot,
    WorkerReady,
)
from rosa_contract.robot import JointLimits, RobotSpec
from rosa_server.serving.core import actions
from rosa_server.serving.core.actions import Dispatch, Kill, Note, Reply, Say
from rosa_server.serving.core.admission import AdmissionControl
from rosa_server.serving.core.batch_profile import BatchProfile
from rosa_server.serving.core.core import ServingCore
from rosa_server.serving.core.placement import Placement, Replica
from rosa_sim.fleet.network import IDEAL, Network, Way
from rosa_sim.fleet.robot import ANY_TIME, Habits, Observer, ToSend, VirtualRobot
from rosa_sim.fleet.workers import Gpu, SimulatedWorker, answer_of, cancelled, executed

ROBOT = RobotSpec(
    name="virtual",
    joints=("joint",),
    limits=JointLimits((-1.0,), (1.0,), (1.0,), (1.0,), (1.0,)),
    cameras={"front": CameraSpec(96, 96)},
    home_rad=(0.0,),
    safe_rad=(0.0,),
)
CHUNK = Output({"actions": np.zeros((1, 2), np.float32)})  # (horizon, joint and gripper)
NO_FRAMES = (b"",)
LARGEST_BATCH = 64
WAKE, TO_GATEWAY, TO_ROBOT, BATCH_ENDS, GATEWAY_WAKES, CALL = range(6)


@dataclass(frozen=True)
class Joining:
    """One robot of the fleet: its task, when that begins, and when the robot says hello; usually just then."""

    name: str
    task: str
    start_s: float
    hello_s: float | None = None


@dataclass
class Serving:
    """What the server side of a simulation is made of."""

    factory: Factory
    placement: Placement
    services: Mapping[str, BatchProfile]  # replica -> time of a batch by its size
    admission: AdmissionControl | None = None
    variation: float = 0.0  # of one run, see `SimulatedWorker`


@dataclass
class _Seat:
    """A robot with its two ways and the time of its next wake-up in the heap."""

    robot: VirtualRobot
    link: Greeting
    connection: bytes
    up: Way
    down: Way
    wake_s: float = inf


class Simulation:
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
        self.core = ServingCore(serving.factory, serving.placement, serving.admission, lambda: "")
        self.now_s, self.events = 0.0, 0
        self.gpus: dict[str, Gpu] = {}
        self.robots: dict[str, VirtualRobot] = {}
        self.notes: list[tuple[float, Note]] = []
        self._serving, self._observer, self._network, self._habits = serving, observer, network, habits
        self._seed, self._window, self._watch = seed, window, watch
        self._heap: list[tuple[float, int, int, Any, Any]] = []
        self._order = 0
        self._seats: dict[bytes, _Seat] = {}
        self._workers: dict[str, SimulatedWorker] = {}
        self._lives: dict[str, int] = {}
        self._core_wake_s = inf
        components = {name for task in serving.factory.tasks.values() for name in task.components}
        self._answers = {name: answer_of(name, CHUNK) for name in components}
        for replica in serving.placement.replicas.values():
            for number in range(replica.workers):
                self._start_worker(replica, number)
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

    def _new_robot(self, name: str, task: Task, link: Greeting, phase_s: float) -> VirtualRobot:
        return VirtualRobot(name, task, ROBOT, link, self._observer, self._habits, phase_s)

    def at(self, time_s: float, call: Callable[[float], None]) -> None:
        """Have something done at a time."""
        self._at(time_s, CALL, lambda now_s, _: call(now_s), None)

    def lose_server(self, server: str, now_s: float) -> None:
        """Every worker of a server ends; what it ran is gone."""
        for worker in [w for w in self._workers.values() if self._replica(w).server == server]:
            worker.alive = False
            del self._workers[worker.worker_id]
            self.core.on_lost(now_s, worker.worker_id, "ended by the scenario")

    def return_server(self, server: str, now_s: float) -> None:
        """A lost server comes back warm."""
        self.gpus.pop(server, None)
        for replica in self._serving.placement.replicas.values():
            if replica.server == server:
                for number in range(replica.workers):
                    self._start_worker(replica, number)

    def run(self, until_s: float) -> None:
        """Let time pass until `until_s`."""
        heap = self._heap
        pop = heapq.heappop
        self._tick_core()
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
                elif kind == BATCH_ENDS:
                    self._batch_ends(now_s, subject, what)
                elif now_s != self._core_wake_s:
                    continue  # it has been ticked since
                if not (heap and heap[0][0] == now_s and heap[0][2] in (TO_GATEWAY, BATCH_ENDS)):
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
            header = {"i": send.request_id, "c": send.component, "b": send.budget_ms, "m": [], "s": {}}
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

    # -- the server ----------------------------------------------------------------------------------------------------

    def _to_gateway(self, now_s: float, seat: _Seat, message: Any) -> None:
        if type(message) is dict:
            self.core.on_request(now_s, seat.connection, message, NO_FRAMES)
        else:
            self.core.on_robot(now_s, seat.connection, message)

    def _tick_core(self) -> None:
        now_s = self.now_s
        next_s = self.core.tick(now_s)
        self._act(now_s)
        if next_s <= now_s:
            next_s = now_s + 1e-6
        if next_s != self._core_wake_s:
            self._core_wake_s = next_s
            self._at(next_s, GATEWAY_WAKES, None, None)

    def _act(self, now_s: float) -> None:
        for action in self.core.actions():
            if self._watch is not None:
                self._watch(now_s, action)
            if isinstance(action, Reply):
                call = action.call
                ran = action.batch_size > 0
                queue_ms = ((call.dispatched_s if ran else action.ended_s) - call.arrived_s) * 1000
                response = Response(
                    call.request_id,
                    action.status,
                    action.cause,
                    action.reason,
                    queue_ms,
                    action.inference_ms,
                    action.batch_size,
                    action.output,
                    call.pace,
                )
                self._say(now_s, call.connection, response)
            elif isinstance(action, Dispatch):
                self._dispatch(now_s, action)
            elif isinstance(action, actions.Cancel):
                self._cancel(now_s, action)
            elif isinstance(action, Say):
                self._say(now_s, action.connection, action.message)
            elif isinstance(action, Kill):
                self._kill(now_s, action)
            elif isinstance(action, Note):
                self.notes.append((now_s, action))

    def _kill(self, now_s: float, kill: Kill) -> None:
        raise RuntimeError(f"the serving core ends {kill.worker_id}: {kill.reason}")

    def _say(self, now_s: float, connection: bytes, message: ToRobot) -> None:
        seat = self._seats[connection]
        arrives_s = seat.down.arrives_s(now_s)
        if arrives_s is not None:
            self._at(arrives_s, TO_ROBOT, seat, message)

    # -- workers -------------------------------------------------------------------------------------------------------

    def _start_worker(self, replica: Replica, number: int) -> None:
        place = f"{replica.id}/{number}"
        life = self._lives[place] = self._lives.get(place, 0) + 1
        gpu = self.gpus.setdefault(f"{replica.server}#{number}" if number else replica.server, Gpu())
        service = self._serving.services[replica.id]
        rng = Random(f"{self._seed} {place}.{life}")
        worker = SimulatedWorker(
            f"{place}.{life}", replica.model, replica.id, gpu, service, self._serving.variation, rng
        )
        worker.mixed = {component: BatchProfile(times) for component, times in replica.mixed_ms.items()}
        self._workers[worker.worker_id] = worker
        most = replica.batch or LARGEST_BATCH
        self.core.on_ready(
            self.now_s, WorkerReady(worker.worker_id, replica.model, most, {}, {}, replica.at_once or 1)
        )

    def _replica(self, worker: SimulatedWorker) -> Replica:
        return self._serving.placement.replicas[worker.replica]

    def _dispatch(self, now_s: float, batch: Dispatch) -> None:
        worker = self._workers.get(batch.worker_id)
        if worker is None:
            return  # it is gone, and the core has been told
        if self._replica(worker).at_once is not None:
            worker.begin(now_s, batch)
            self._running_changes(now_s, worker)
            return
        service_s = worker.service_s(len(batch.calls))
        link_s = self._replica(worker).link_ms / 1000
        ends_s = worker.gpu.take(now_s + link_s, service_s, self._window) + link_s
        self._at(ends_s, BATCH_ENDS, worker, self._answered(batch, service_s))

    def _cancel(self, now_s: float, cancel: actions.Cancel) -> None:
        """A worker drops calls and says so at once."""
        worker = self._workers.get(cancel.worker_id)
        for batch in worker.drop(now_s, cancel.tickets) if worker is not None else ():
            self._at(now_s, BATCH_ENDS, worker, cancelled(batch))
        if worker is not None:
            self._running_changes(now_s, worker)

    def _batch_ends(self, now_s: float, worker: SimulatedWorker, done: Any) -> None:
        if not worker.alive:
            return
        if done is not None:
            self._executed(now_s, worker, done)
        elif now_s == worker.shared.next_s:
            batch, begun_s = worker.shared.end(now_s)
            self._executed(now_s, worker, self._answered(batch, now_s - begun_s))
            self._running_changes(now_s, worker)

    def _answered(self, batch: Dispatch, service_s: float) -> Executed:
        return executed(batch, service_s, self._answers)

    def _executed(self, now_s: float, worker: SimulatedWorker, done: Executed) -> None:
        self.core.on_executed(now_s, worker.worker_id, done)

    def _running_changes(self, now_s: float, worker: SimulatedWorker) -> None:
        worker.gpu.busy(now_s, bool(worker.shared), self._window)
        if worker.shared.next_s < inf:
            self._at(worker.shared.next_s, BATCH_ENDS, worker, None)

    def _at(self, time_s: float, kind: int, subject: Any, what: Any) -> None:
        self._order += 1
        heapq.heappush(self._heap, (time_s, self._order, kind, subject, what))


def tasks_of(factory: Factory, robots: Iterable[Joining]) -> dict[str, Task]:
    """Robot -> its task."""
    return {robot.name: factory.tasks[robot.task] for robot in robots}
