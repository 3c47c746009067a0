"""The robots of the chaos: production's core and greeting, links on which messages go astray, and persons."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections import Counter
from collections.abc import Callable
from math import inf
from random import Random
from typing import Any

from rosa_client.connection.greeting import Greeting
from rosa_client.runtime.commands import Alert
from rosa_client.runtime.machines.task_machine import State
from rosa_contract.config.tasks import MONITOR, Task
from rosa_contract.wire.messages import Output
from rosa_server.simulator.network import Network
from rosa_server.simulator.servers import TO_GATEWAY, TO_ROBOT, Serving
from rosa_sim.chaos.plan import NEVER, Fault, Plan
from rosa_sim.chaos.robot import ChaosRobot, Nobody
from rosa_sim.chaos.watch import RobotWatch
from rosa_sim.fleet.robot import Habits
from rosa_sim.fleet.simulation import ROBOT, Joining, Simulation

UNSAFE, DONE, FAILED = 0.002, 0.02, 0.01  # shares of verdicts when nothing is wrong
OPERATOR_S = 1.0  # a person answers so soon, when nothing is wrong with them


class FaultyRobots(Simulation, metaclass=ABCMeta):
    """A simulated fleet whose robots and links fail as a plan says, each robot watched."""

    def __init__(
        self, plan: Plan, draws: str, serving: Serving, watch: Callable[[float, Any], None] | None = None
    ) -> None:
        """`draws`: what the seed of its chances is called. `watch`: see `Simulation`."""
        self.plan, self.calm, self.counts = plan, False, Counter[str]()
        self._now: list[Fault] = []  # that are active
        self._draw = Random(f"{draws} {plan.seed}")
        self._numbers: dict[str, int] = {}  # of robots
        self._lives_of = Counter[str]()
        self._dead: set[int] = set()  # seats of robots that were switched off
        self._gone: list[Any] = []
        habits = Habits(plan.control_period_s, plan.camera_period_s)
        network = Network(latency_ms=0.5, jitter_ms=plan.jitter_ms)
        super().__init__(serving, (), Nobody(), network, habits, plan.seed, watch=watch)

    def _active(self, *kinds: str) -> list[Fault]:
        return [fault for fault in self._now if fault.kind in kinds]

    @abstractmethod
    def _connection_ended(self, now_s: float, seat: Any) -> None:
        """The gateway of a robot hears that its connection has ended."""

    def _settled(self, robot: ChaosRobot) -> bool:
        """Done, or a human is asked; a task without a monitor has no end of its own: then it works again."""
        if robot.core.state in (State.IDLE, State.WAITING_FOR_HUMAN):
            return True
        return MONITOR not in robot.core.calls and robot.watch.played_s > self.plan.seconds

    def _live(self) -> list[Any]:
        return list(self._seats.values())

    def _hits_number(self, fault: Fault, index: int) -> bool:
        return not fault.targets or index in {target % len(self._numbers) for target in fault.targets}

    def _hits(self, fault: Fault, seat: Any) -> bool:
        return self._hits_number(fault, self._numbers[seat.robot.name])

    # -- links ---------------------------------------------------------------------------------------------------------

    def _copies(self, seat: Any, up: bool, arrives_s: float | None) -> list[float]:
        """When the copies of a message arrive that would arrive once."""
        if arrives_s is None or id(seat) in self._dead:
            return []
        draw = self._draw.random
        times = [arrives_s]
        for fault in self._now:
            if not (fault.kind.startswith("message_") or fault.kind == "partition") or not self._hits(
                fault, seat
            ):
                continue
            if fault.kind == "partition":
                if int(fault.amount) in (0, 1 if up else 2):
                    return []
            elif fault.kind == "message_loss":
                times = [time for time in times if draw() >= fault.amount]
            elif fault.kind == "message_delay":
                times = [time + fault.amount for time in times]
            elif fault.kind == "message_reordering":
                times = [time + draw() * fault.amount for time in times]
            elif draw() < fault.amount:
                times += [time + draw() * 0.05 for time in times]
        return times

    def _send(self, now_s: float, seat: Any, message: Any) -> None:
        seat.link.sent(now_s)
        for time_s in self._copies(seat, True, seat.up.arrives_s(now_s)):
            self._at(time_s, TO_GATEWAY, seat, message)

    def _say(self, now_s: float, connection: bytes, message: Any) -> None:
        seat = self._seats.get(connection)
        if seat is None:
            return
        for time_s in self._copies(seat, False, seat.down.arrives_s(now_s)):
            self._at(time_s, TO_ROBOT, seat, message)

    # -- robots --------------------------------------------------------------------------------------------------------

    def _new_robot(self, name: str, task: Task, link: Greeting, phase_s: float) -> ChaosRobot:
        robot = ChaosRobot(name, task, ROBOT, link, self._observer, self._habits, phase_s)
        period_s = self.plan.control_period_s
        robot.world, robot.watch = self, RobotWatch(name, task, ROBOT, period_s)
        return robot

    def _switch_off(self, seat: Any, now_s: float) -> None:
        self._dead.add(id(seat))
        self._gone.append(seat)  # kept, so that no other seat gets its id
        seat.wake_s = inf
        del self._seats[seat.connection]
        self._connection_ended(now_s, seat)

    def _switch_on(self, name: str, now_s: float) -> None:
        self._lives_of[name] += 1
        self.join(Joining(name, name.rpartition("-")[0], now_s + 0.001))

    def join(self, joining: Joining) -> None:
        """As in the simulation; another life of a robot comes on another connection."""
        super().join(joining)
        life = self._lives_of[joining.name]
        if life:
            seat = self._seats.pop(joining.name.encode())
            seat.connection = f"{joining.name}.{life}".encode()
            self._seats[seat.connection] = seat

    def _begin(self, now_s: float, seat: Any) -> None:
        if id(seat) not in self._dead:
            super()._begin(now_s, seat)

    def _wake_link(self, now_s: float, seat: Any) -> None:
        if id(seat) not in self._dead:
            super()._wake_link(now_s, seat)

    def _to_robot(self, now_s: float, seat: Any, message: Any) -> None:
        if id(seat) not in self._dead:
            super()._to_robot(now_s, seat, message)

    def operator_comes_s(self, robot: ChaosRobot, now_s: float) -> float:
        """When somebody answers this robot's alert."""
        if self.calm:
            return inf
        index = self._numbers[robot.name]
        late = [f.amount for f in self._active("operator_late") if self._hits_number(f, index)]
        if any(amount <= NEVER for amount in late):
            return inf
        return now_s + max([OPERATOR_S, *late])

    def choice_of_operator(self, alert: Alert) -> str:
        """Any of those that the robot offers."""
        return self._draw.choice(alert.choices)

    # -- what models say -----------------------------------------------------------------------------------------------

    def _said(self, output: Output) -> Output:
        """Safety and the monitor do not always say the same."""
        draw = self._draw.random()
        if output.verdict == "safe":
            return Output(verdict="unsafe") if draw < self._share("verdict_unsafe", UNSAFE) else output
        if output.verdict != "ongoing":
            return output
        if self.calm or draw < self._share("verdict_done", DONE):
            return Output(verdict="done")
        return Output(verdict="failed") if draw > 1 - self._share("verdict_failed", FAILED) else output

    def _share(self, kind: str, usual: float) -> float:
        return max([0.0 if self.calm else usual, *(fault.amount for fault in self._active(kind))])
