"""The simulated fleet (`rosa_server/simulator/`) with robots that decide with production's core, and their links."""

from __future__ import annotations

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
from rosa_contract.wire.codec import packed_progress, request_header
from rosa_contract.wire.messages import Cancel, Hello, Ready, TaskEnds, ToRobot
from rosa_server.simulator.fleet import Seat, SimulatedFleet
from rosa_server.simulator.network import IDEAL, Network
from rosa_server.simulator.servers import CALL, Serving
from rosa_sim.fleet.robot import ANY_TIME, Habits, Observer, ToSend, VirtualRobot

ROBOT = RobotSpec(
    name="virtual",
    joints=("joint",),
    limits=JointLimits((-1.0,), (1.0,), (1.0,), (1.0,), (1.0,)),
    cameras={"front": CameraSpec(96, 96)},
    home_rad=(0.0,),
    safe_rad=(0.0,),
)


@dataclass(frozen=True)
class Joining:
    """One robot of the fleet: its task, when that begins, and when the robot says hello; usually just then."""

    name: str
    task: str
    start_s: float
    hello_s: float | None = None


class RobotSeat(Seat):
    """The place of a robot with a link."""

    def __init__(self, robot: VirtualRobot, link: Greeting, network: Network, rng: Random) -> None:
        super().__init__(robot.name.encode(), network, rng)
        self.robot, self.link = robot, link


class Simulation(SimulatedFleet[RobotSeat]):
    """Robots with production's core and greeting around production's gateway."""

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
        super().__init__(serving, network, seed, window, watch)
        self.robots: dict[str, VirtualRobot] = {}
        self._observer, self._habits = observer, habits
        for robot in robots:
            self.join(robot)

    # -- what the world does -------------------------------------------------------------------------------------------

    def join(self, joining: Joining) -> None:
        """Switch a robot on at its time."""
        name, task = joining.name, self._serving.factory.tasks[joining.task]
        rng = Random(f"{self._seed} {name}")
        link = self._new_link(Hello(name, joining.task, {}, {}))
        phase_s = joining.start_s + rng.random() * max(
            self._habits.control_period_s, self._habits.camera_period_s
        )
        robot = self._new_robot(name, task, link, phase_s)
        seat = RobotSeat(robot, link, self._network, rng)
        self._seats[seat.connection] = seat
        self.robots[name] = robot
        if joining.hello_s is not None and joining.hello_s < joining.start_s:
            self._at(joining.hello_s, CALL, self._wake_link, seat)
        self._at(joining.start_s, CALL, self._begin, seat)

    def _new_link(self, hello: Hello) -> Greeting:
        return Greeting("the simulated gateway", hello)

    def _new_robot(self, name: str, task: Task, link: Greeting, phase_s: float) -> VirtualRobot:
        return VirtualRobot(name, task, ROBOT, link, self._observer, self._habits, phase_s)

    # -- robots --------------------------------------------------------------------------------------------------------

    def _wake_link(self, now_s: float, seat: RobotSeat) -> None:
        if seat.link.hello_is_due(now_s):
            self._send(now_s, seat, seat.link.hello)
        self._requests(now_s, seat, ())

    def _begin(self, now_s: float, seat: RobotSeat) -> None:
        if seat.link.hello_is_due(now_s):
            self._send(now_s, seat, seat.link.hello)
        self._requests(now_s, seat, seat.robot.start(now_s))

    def _wake(self, now_s: float, seat: RobotSeat) -> None:
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

    def _to_robot(self, now_s: float, seat: RobotSeat, message: ToRobot) -> None:
        link = seat.link
        link.heard(now_s)
        response = link.take(message)
        if response is None:
            self._requests(now_s, seat, seat.robot.linked(now_s))
        else:
            link.answered(now_s, response)
            self._requests(now_s, seat, seat.robot.receive(response, now_s))

    def _requests(self, now_s: float, seat: RobotSeat, sends: Sequence[ToSend]) -> None:
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
            budget_ms = seat.link.budget_ms(now_s, send.request_id, send.budget_ms)
            header = request_header(send.request_id, send.component, budget_ms)
            if send.progress is not None and seat.link.tasks:
                header["progress"] = packed_progress(send.progress)
            self._send(now_s, seat, header)
        self._wake_at(now_s, seat, min(seat.robot.due_s, seat.link.next_due_s()))

    def _send(self, now_s: float, seat: RobotSeat, message: Any) -> None:
        seat.link.sent(now_s)
        super()._send(now_s, seat, message)


def tasks_of(factory: Factory, robots: Iterable[Joining]) -> dict[str, Task]:
    """Robot -> its task."""
    return {robot.name: factory.tasks[robot.task] for robot in robots}
