"""The fleet simulator with robots that work on pieces: tasks finished, not only actions executed.

The monitor's verdict is the truth at the moment of its observation; GPUs, links and robots are those of the fleet
simulator. With physics, System 1's answers are the shipped policy's, made of what each robot saw.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

from rosa_client.connection.greeting import Greeting
from rosa_client.runtime.commands import CallEnded, Command, Hold, MoveTo, Play, Send, TaskEnded
from rosa_client.runtime.machines.task_machine import State
from rosa_contract.config.robot import RobotSpec
from rosa_contract.config.tasks import MONITOR, SYSTEM1, Task
from rosa_contract.wire.messages import Executed, Output
from rosa_server.models.backend import ModelInput
from rosa_server.models.panda.flow_policy import FlowPolicyBackend
from rosa_server.serving.core.queueing.actions import Dispatch
from rosa_server.simulator.workers import SimulatedWorker
from rosa_sim.closed_loop.cells import DONE, FAILED, PieceCell
from rosa_sim.closed_loop.physics import answers
from rosa_sim.fleet.robot import ToSend, VirtualRobot
from rosa_sim.fleet.simulation import ROBOT, Simulation

NEXT_PIECE_S = 2.0  # from a finished piece to the beginning of the next one


@dataclass
class FleetTally:
    """What the robots of a fleet finished in the window `[from_s, to_s)`."""

    from_s: float
    to_s: float
    finished: dict[str, int] = field(default_factory=dict)  # by robot
    took_s: list[float] = field(default_factory=list)  # of each finished piece, from its beginning
    failed: int = 0

    def count(self, robot: str, now_s: float, began_s: float, done: bool) -> None:
        """A piece has ended, as the monitor says."""
        if self.from_s <= now_s < self.to_s:
            self.finished[robot] = self.finished.get(robot, 0) + done
            self.failed += not done
            if done:
                self.took_s.append(now_s - began_s)

    def per_hour(self, robots: int) -> list[float]:
        """Of each robot, those that finished nothing included."""
        hours = (self.to_s - self.from_s) / 3600
        counts = list(self.finished.values())
        return [count / hours for count in counts] + [0.0] * (robots - len(counts))


class WorkingRobot(VirtualRobot):
    """A virtual robot that works on a piece and takes the next one when the monitor says done, or failed."""

    cell: PieceCell
    tally: FleetTally
    again_s = inf
    _sent_s = _began_s = 0.0

    def start(self, now_s: float) -> list[ToSend]:
        self.seen: dict[int, tuple[str, Any]] = {}  # request -> how the piece stood, and what System 1 saw
        self._next_piece(now_s)
        return super().start(now_s)

    def tick(self, now_s: float) -> list[ToSend]:
        if self.again_s <= now_s and self.core.state is State.IDLE:
            self.again_s = inf
            self._next_piece(now_s)
            self._carry(self.core.start(now_s), now_s)
        return super().tick(now_s)

    def _next_piece(self, now_s: float) -> None:
        self._began_s = now_s
        self.cell.begin(now_s)

    def _plan_wake(self, now_s: float, core_s: float, step_s: float) -> None:
        super()._plan_wake(now_s, core_s, step_s)
        self.due_s = min(self.due_s, self.again_s)

    def _carry(self, commands: list[Command], now_s: float) -> None:
        super()._carry(commands, now_s)
        for command in commands:
            if isinstance(command, Send):
                if command.component == SYSTEM1:
                    self._sent_s = now_s
                    self.seen[command.request_id] = ("", self.cell.look(now_s))
                elif command.component == MONITOR:
                    self.seen[command.request_id] = (self.cell.truth(now_s), None)
            elif isinstance(command, CallEnded):
                self.seen.pop(command.request_id, None)
            elif isinstance(command, Play):
                self.cell.play(now_s, now_s - self._sent_s, command.actions)
            elif isinstance(command, Hold):
                self.cell.hold(now_s)
            elif isinstance(command, MoveTo):
                if self.cell.truth(now_s) == FAILED:  # the robot tries again, on the next piece
                    self.tally.count(self.name, now_s, self._began_s, False)
                    self._next_piece(now_s)
            elif isinstance(command, TaskEnded):
                self.cell.hold(now_s)
                self.tally.count(self.name, now_s, self._began_s, command.outcome == DONE)
                self.again_s = now_s + NEXT_PIECE_S


class ClosedLoop(Simulation):
    """`cell_of` makes a robot's cell. With `policy`, System 1 is that policy, and robots are as `spec` says."""

    def __init__(
        self,
        *args: Any,
        cell_of: Callable[[str, Task], PieceCell],
        tally: FleetTally,
        policy: FlowPolicyBackend | None = None,
        spec: RobotSpec | None = None,
        **kwargs: Any,
    ) -> None:
        self._cell_of, self._tally, self._policy, self._spec = cell_of, tally, policy, spec
        super().__init__(*args, **kwargs)

    def _new_robot(self, name: str, task: Task, link: Greeting, phase_s: float) -> WorkingRobot:
        robot = WorkingRobot(name, task, self._spec or ROBOT, link, self._observer, self._habits, phase_s)
        robot.cell, robot.tally = self._cell_of(name, task), self._tally
        return robot

    def _answered(self, worker: SimulatedWorker, batch: Dispatch, service_s: float) -> Executed:
        done = super()._answered(worker, batch, service_s)
        outputs = list(done.outputs)
        looks: dict[int, ModelInput] = {}
        for index, call in enumerate(batch.calls):
            robot = self.robots[call.robot_id]
            assert isinstance(robot, WorkingRobot)
            truth, look = robot.seen.get(call.request_id, ("", None))
            if truth:
                outputs[index] = Output(verdict=truth)
            elif look is not None:
                looks[index] = look
        if self._policy is not None:
            for index, answer in zip(looks, answers(self._policy, list(looks.values())), strict=True):
                outputs[index] = answer
        return replace(done, outputs=outputs)
