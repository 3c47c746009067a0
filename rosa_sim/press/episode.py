"""An episode: the robot's own core, player and last check, the model behind its adapter, physics, a simulated clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rosa_client.motion.limits import MotionLimits
from rosa_client.motion.refusal import Refusal
from rosa_client.motion.setpoint_guard import SetpointGuard
from rosa_client.runtime.commands import Command, Decision, Hold, Play, Send
from rosa_contract.config.factory import load_factory
from rosa_contract.config.robot import RobotSpec, load_robot
from rosa_contract.config.tasks import SYSTEM1, Task
from rosa_contract.shipped import shipped
from rosa_contract.wire.images import decode_image, encode_image
from rosa_contract.wire.messages import OK, Output, Response
from rosa_server.models.backend import Backend, ModelInput
from rosa_server.serving.worker.elsewhere import backend_of
from rosa_sim.played import PlayedRobot
from rosa_sim.press.scene import PressScene

LATENCY_S = 0.1  # of an answer
GIVEN_UP_S = 20.0


@dataclass
class Episode:
    """How it went. `spaces`: in which the model answered; `refused`: decisions about answers that were not played."""

    pressed: bool = False
    rounds: int = 0
    task_s: float = 0.0
    spaces: set[str] = field(default_factory=set)
    refused: list[str] = field(default_factory=list)
    setpoints_rad: list[NDArray[np.float64]] = field(default_factory=list)


def shipped_task() -> tuple[Task, RobotSpec, Backend]:
    """The task, the robot and the loaded model of configs/press.yaml."""
    factory = load_factory(shipped("configs", "press.yaml"))
    task = factory.tasks["press"]
    model = task.components[SYSTEM1].model
    backend = backend_of(model, factory.models[model])
    backend.load()
    return task, load_robot(shipped("configs", "robots", "ur5e.yaml")), backend


def episode(task: Task, robot: RobotSpec, backend: Backend, scene: PressScene) -> Episode:
    """From home until the button is pressed, or given up. Raises `RuntimeError` when a setpoint is over a limit."""
    rate_hz = robot.control_rate_hz
    played = PlayedRobot(task, robot, scene.joint_position)
    guard = SetpointGuard(MotionLimits.of(robot), rate_hz)
    guard.begin(scene.joint_position)
    found, waiting = Episode(), list[tuple[float, Response, ModelInput]]()
    now_s, begun_s = 100.0, 100.0

    def carry(commands: Sequence[Command]) -> None:
        for command in commands:
            if isinstance(command, Send):
                seen = _look(command, scene)
                [output] = backend.infer([seen])
                found.spaces |= output.arrays.keys() - {"step_s"}
                response = Response(command.request_id, OK, output=Output(output.arrays, output.verdict))
                waiting.append((now_s + LATENCY_S, response, seen))
            elif isinstance(command, Play | Hold):
                found.rounds += isinstance(command, Play)
                played.order(now_s, command)
            elif isinstance(command, Decision) and command.cause == "invalid_actions":
                found.refused.append(command.reason)

    carry(played.core.start(now_s))
    while not scene.pressed and now_s - begun_s < GIVEN_UP_S:
        now_s += 1 / rate_hz
        for due in [one for one in waiting if one[0] <= now_s + 1e-9]:
            waiting.remove(due)
            carry(played.core.answer(now_s, due[1], due[2].state))
        carry(played.tick(now_s))
        command = guard.check(played.setpoint(now_s))
        if isinstance(command, Refusal):
            raise RuntimeError(f"the last check refused a setpoint: {command}")
        found.setpoints_rad.append(command.q_rad)
        scene.step(command.q_rad, 1 / rate_hz)
    found.pressed, found.task_s = scene.pressed, now_s - begun_s
    return found


def _look(send: Send, scene: PressScene) -> ModelInput:
    """What a worker would be given: pictures that travelled as JPEG, and the robot's own state."""
    pictures = {name: decode_image(encode_image(one)) for name, one in scene.pictures().items()}
    state = {"joint_position": scene.joint_position.astype(np.float32)}
    return ModelInput(send.component, send.prompt, pictures, state, "ur5e")
