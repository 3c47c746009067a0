"""The shipped policy in physics: a cell whose arm follows a fleet's clock, and trials of many cells in lockstep.

Both execute the first steps of a chunk, look, and hold while the next chunk is made, as a synchronous robot does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import floor
from random import Random

import numpy as np
from numpy.typing import NDArray

from rosa_client.motion.setpoint_filter import SetpointFilter
from rosa_contract.wire.messages import Output
from rosa_server.models.backend import ModelInput
from rosa_server.models.panda.flow_policy import FlowPolicyBackend
from rosa_sim.cell.layout.hardware import CONTROL_RATE_HZ, panda
from rosa_sim.cell.render import SceneRenderer
from rosa_sim.cell.rollout import STEP_S
from rosa_sim.cell.world import World
from rosa_sim.closed_loop.cells import DONE, FAILED, GIVEN_UP_S, ONGOING
from rosa_sim.closed_loop.table import PieceTrial
from rosa_sim.training.data.looks import look

PERIOD_S = 1 / CONTROL_RATE_HZ


class PhysicalCell:
    """One robot's cell: a MuJoCo world that is moved on to the time of whatever happens to it."""

    def __init__(self, renderer: SceneRenderer, seeds: Iterator[int], steps: int) -> None:
        """`seeds`: of its pieces. `steps`: of a chunk that are executed."""
        self._renderer, self._seeds, self._steps = renderer, seeds, steps
        self._world: World | None = None
        self._filter = SetpointFilter(panda().limits, CONTROL_RATE_HZ)
        self._clock_s = self._from_s = self._played_s = 0.0
        self._actions: NDArray[np.float64] | None = None

    def begin(self, now_s: float) -> None:
        """The next piece; the arm is at home."""
        seed = next(self._seeds)
        if self._world is None:
            self._world = World(seed)
        else:
            self._world.reset(seed)
        self._filter.reset(self._world.joint_position)
        self._target, self._width_m = self._world.joint_position, self._world.gripper_width
        self._clock_s, self._played_s, self._actions = now_s, 0.0, None

    def play(self, now_s: float, latency_s: float, actions: NDArray[np.float64] | None) -> None:
        """Execute `actions` `(steps or more, 8)`: joint positions rad and gripper width m."""
        self._advance(now_s)
        self._actions, self._from_s = actions, now_s

    def hold(self, now_s: float) -> None:
        """Stay at the present setpoint."""
        self._advance(now_s)
        self._actions = None

    def look(self, now_s: float) -> ModelInput:
        """What the robot would send now, as the model sees it."""
        self._advance(now_s)
        return look(self.world, self._renderer)

    def truth(self, now_s: float) -> str:
        """How the piece stands; one that takes too long is given up."""
        self._advance(now_s)
        outcome = self.world.outcome()
        return FAILED if outcome == ONGOING and self._played_s >= GIVEN_UP_S else outcome

    @property
    def world(self) -> World:
        """Raises `RuntimeError` before the first piece."""
        if self._world is None:
            raise RuntimeError("PhysicalCell: no piece has begun")
        return self._world

    def _advance(self, now_s: float) -> None:
        while self._clock_s + PERIOD_S <= now_s + 1e-9:
            if self._actions is not None:
                row = floor((self._clock_s - self._from_s) / STEP_S + 1e-6)
                if row < self._steps:
                    action = self._actions[max(0, row)]
                    self._target, self._width_m = np.asarray(action[:7], np.float64), float(action[7])
                    self._played_s += PERIOD_S
            self.world.step(self._filter.step(self._target), self._width_m, PERIOD_S)
            self._clock_s += PERIOD_S


def answers(policy: FlowPolicyBackend, seen: Sequence[ModelInput]) -> list[Output]:
    """The policy's chunks, in batches as large as it takes."""
    limit = policy.max_batch
    parts = [policy.infer(seen[first : first + limit]) for first in range(0, len(seen), limit)]
    return [Output(one.arrays) for part in parts for one in part]


def trials(
    steps: int,
    latency_s: float,
    seeds: Sequence[int],
    policy: FlowPolicyBackend,
    renderer: SceneRenderer,
    rest_s: float = 0.0,
) -> list[PieceTrial]:
    """One piece per seed, in lockstep so that the policy answers all of them in one batch.

    Each round: look, hold for about `latency_s`, execute `steps` of the chunk, and rest before the next look. The hold
    varies by up to half a control period, so that looks and chunks fall anywhere between two of the arm's setpoints, as
    in a fleet: where all of them fall on one, the last waypoint of a chunk gets a whole period more.
    """
    random = Random(seeds[0])
    cells = [PhysicalCell(renderer, iter((seed,)), steps) for seed in seeds]
    found: dict[int, PieceTrial] = {}
    for cell in cells:
        cell.begin(0.0)
    now_s, rounds = 0.0, 0
    while len(found) < len(cells):
        open_now = [number for number in range(len(cells)) if number not in found]
        seen = [cells[number].look(now_s) for number in open_now]
        begins_s = now_s + latency_s + PERIOD_S * (random.random() - 0.5)
        for number, answer in zip(open_now, answers(policy, seen), strict=True):
            cell = cells[number]
            cell.play(begins_s, latency_s, answer.arrays["actions"])
            for step in range(steps + 1):  # the first look is at what came to rest in the hold
                truth = cell.truth(begins_s + step * STEP_S)
                if truth != ONGOING:
                    found[number] = PieceTrial(truth == DONE, round(rounds + step / steps, 3))
                    break
        now_s, rounds = begins_s + steps * STEP_S + rest_s, rounds + 1
    return [found[number] for number in range(len(cells))]
