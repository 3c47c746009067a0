"""The robot's own core, its chunk player and the shipped policy in physics, on a simulated clock: one piece at a time.

Nothing is modelled but the latency of an answer, so synchronous and asynchronous execution are the core's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from rosa_client.motion.arm_orders import PlayerState
from rosa_client.runtime.commands import Command, Hold, Play, Send, TaskEnded
from rosa_contract.config.robot import load_robot
from rosa_contract.config.tasks import Task
from rosa_contract.kinematics.joining import blended
from rosa_contract.shipped import shipped
from rosa_contract.wire.messages import OK, Output, Response
from rosa_server.models.backend import ModelInput
from rosa_server.models.horizon import choose
from rosa_server.models.panda.flow_policy import FlowPolicyBackend
from rosa_sim.cell.layout.hardware import CONTROL_RATE_HZ
from rosa_sim.cell.render import SceneRenderer
from rosa_sim.cell.world import World
from rosa_sim.closed_loop.cells import FAILED, ONGOING
from rosa_sim.played import PlayedRobot
from rosa_sim.training.data.looks import look

ROBOT = load_robot(shipped("configs", "robots", "panda.yaml"))
PERIOD_S = 1 / CONTROL_RATE_HZ
GIVEN_UP_S = 30.0
SEAMS = SWITCH, BLEND, INPAINT = "switch", "blend", "inpaint"  # how the next chunk joins
BEFORE_S, AFTER_S = 0.05, 0.25  # around a seam; the setpoint filter spreads a change over 0.2 s


@dataclass
class PhysicsEpisode:
    """How a piece went. `setpoints_rad` `(periods, 7)`; `seams`: the periods in which a chunk began."""

    outcome: str = ONGOING
    rounds: int = 0
    setpoints_rad: list[NDArray[np.float64]] = field(default_factory=list)
    seams: list[int] = field(default_factory=list)
    joined: int = 0  # chunks that began while one played

    @property
    def task_s(self) -> float:
        return len(self.setpoints_rad) * PERIOD_S

    def jerk(self) -> NDArray[np.float64]:
        """Jerk of the setpoints around every seam but the first, `(samples, 7)` rad/s^3."""
        jerk = np.diff(np.array(self.setpoints_rad), 3, axis=0) / PERIOD_S**3
        before, after = round(BEFORE_S / PERIOD_S), round(AFTER_S / PERIOD_S)
        parts = [jerk[max(0, at - before) : at + after] for at in self.seams[1:]]
        return np.concatenate(parts) if parts else np.zeros((0, 7))


class Shop:
    """The server: the policy, and how long an answer takes."""

    def __init__(self, policy: FlowPolicyBackend, latency_s: float, seam: str) -> None:
        self.policy, self.latency_s, self.seam = policy, latency_s, seam

    def answer(self, send: Send, seen: ModelInput) -> Response:
        """The response to a request about `seen`, as a worker makes it."""
        overlap = send.overlap
        asked = replace(seen, overlap=overlap if self.seam == INPAINT else None, horizon=send.horizon)
        output = self.policy.infer([asked])[0]
        arrays = dict(output.arrays)
        if overlap is not None and self.seam == BLEND:
            arrays["actions"] = blended(arrays["actions"], overlap)
        plain = Output(arrays)
        if send.horizon is not None:
            chosen = choose(send.horizon, output, overlap.frozen if overlap is not None else 0)
            plain = replace(plain, horizon=chosen.steps, horizon_reason=chosen.reason)
        return Response(send.request_id, OK, output=plain)


def episode(seed: int, task: Task, shop: Shop, world: World, renderer: SceneRenderer) -> PhysicsEpisode:
    """One piece from home until it is done, failed or given up."""
    world.reset(seed)
    played = PlayedRobot(task, ROBOT, world.joint_position, world.gripper_width)
    found, waiting = PhysicsEpisode(), list[tuple[float, Send, ModelInput]]()
    now_s = 100.0

    def carry(commands: Sequence[Command]) -> None:
        for command in commands:
            if isinstance(command, Send):
                waiting.append((now_s + shop.latency_s, command, look(world, renderer)))
            elif isinstance(command, Play):
                found.joined += played.player.state is PlayerState.PLAYING
                found.seams.append(len(found.setpoints_rad))
                found.rounds += 1
                played.order(now_s, command)
            elif isinstance(command, Hold):
                played.order(now_s, command)
            elif isinstance(command, TaskEnded):
                found.outcome = FAILED

    carry(played.core.start(now_s))
    while found.outcome == ONGOING and found.task_s < GIVEN_UP_S:
        now_s += PERIOD_S
        for one in [one for one in waiting if one[0] <= now_s + 1e-9]:
            waiting.remove(one)
            carry(played.core.answer(now_s, shop.answer(*one[1:])))
        carry(played.tick(now_s))
        setpoint = played.setpoint(now_s)
        found.setpoints_rad.append(setpoint.q_rad)
        world.step(setpoint.q_rad, float(setpoint.gripper_m[0]), PERIOD_S)
        if len(found.setpoints_rad) % 5 == 0:
            found.outcome = world.outcome()
    found.outcome = FAILED if found.outcome == ONGOING else found.outcome
    return found
