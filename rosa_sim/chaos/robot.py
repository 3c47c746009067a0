"""One robot of the fleet under chaos: production's core, watched, with a person who answers its alerts."""

from __future__ import annotations

from math import inf
from typing import Protocol

from rosa_client.runtime.commands import Alert, CallEnded, Command, Send, TaskEnded
from rosa_client.runtime.machines.task_machine import State
from rosa_contract.wire.messages import Response
from rosa_sim.chaos.watch import RobotWatch
from rosa_sim.fleet.robot import ToSend, VirtualRobot

NEXT_TASK_S = 0.5


class Surroundings(Protocol):
    """What a robot has to know of the world: whether it is calm, and what its operator does."""

    calm: bool

    def operator_comes_s(self, robot: ChaosRobot, now_s: float) -> float: ...

    def choice_of_operator(self, alert: Alert) -> str: ...


class ChaosRobot(VirtualRobot):
    """A virtual robot whose commands are watched, and which begins its next task when one has ended."""

    world: Surroundings
    watch: RobotWatch
    again_s = inf

    def tick(self, now_s: float) -> list[ToSend]:
        alert = self.core.alert
        if self._person_s <= now_s and alert is not None:
            self._person_s = inf
            choice = self.world.choice_of_operator(alert)
            refusal, commands = self.core.decide(now_s, alert.alert_id, choice, "the simulated operator")
            if refusal is None:
                self.watch.decided()
            self._carry(commands, now_s)
        if self.again_s <= now_s and self.core.state is State.IDLE:
            self.again_s = inf
            if not self.world.calm:
                self._carry(self.core.start(now_s), now_s)
        return super().tick(now_s)

    def receive(self, response: Response, now_s: float) -> list[ToSend]:
        self.watch.arrives(response)
        return super().receive(response, now_s)

    def no_person(self) -> None:
        """Nobody answers an alert any more."""
        self._person_s = inf

    def _carry(self, commands: list[Command], now_s: float) -> None:
        self.watch.commands(self.core, commands, now_s)
        super()._carry(commands, now_s)
        for command in commands:
            if isinstance(command, Alert):
                self._person_s = self.world.operator_comes_s(self, now_s)
            elif isinstance(command, TaskEnded):
                self.again_s = now_s + NEXT_TASK_S

    def _plan_wake(self, now_s: float, core_s: float, step_s: float) -> None:
        super()._plan_wake(now_s, core_s, step_s)
        self.due_s = min(self.due_s, self.again_s)


class Nobody:
    """The watches see everything already."""

    def sent(self, robot: VirtualRobot, send: Send, now_s: float) -> None: ...

    def ended(self, robot: VirtualRobot, ended: CallEnded, now_s: float) -> None: ...

    def late(self, robot: VirtualRobot, component: str, now_s: float) -> None: ...

    def acted(self, robot: VirtualRobot, now_s: float) -> None: ...

    def escalated(self, robot: VirtualRobot, alert: Alert, now_s: float) -> None: ...
