"""The shipped policy in physics under a horizon policy: how often it succeeds, and how many inferences it needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

import numpy as np

from rosa_contract.wire.horizon import Horizon
from rosa_server.models.horizon import choose
from rosa_server.models.panda.flow_policy import FlowPolicyBackend
from rosa_sim.cell.render import SceneRenderer
from rosa_sim.cell.rollout import INFERENCE_S, STEP_S, SynchronousArm
from rosa_sim.cell.world import World
from rosa_sim.closed_loop.cells import DONE, FAILED, GIVEN_UP_S, ONGOING
from rosa_sim.training.data.looks import look

BUMPS_S = (0.3, 1.8)  # of motion: while the arm is on its way to the cube
ON_THE_MAT_M, OPEN_M = 0.035, 0.06


@dataclass
class HorizonPiece:
    """One piece: how it ended, and the horizon of each round, in steps."""

    seed: int
    outcome: str = ONGOING
    horizons: list[int] = field(default_factory=list)

    @property
    def motion_s(self) -> float:
        return sum(self.horizons) * STEP_S

    @property
    def task_s(self) -> float:
        """Motion and inference, one after the other."""
        return self.motion_s + len(self.horizons) * INFERENCE_S


class Bump:
    """Moves the cube once, while the arm is on its way to it: at a time and in a direction that the seed says."""

    def __init__(self, seed: int, far_m: float) -> None:
        rng = np.random.default_rng(seed)
        angle = rng.uniform(0, 2 * np.pi)
        self._by_m = far_m * np.array([np.cos(angle), np.sin(angle)])
        self._at_s = rng.uniform(*BUMPS_S) if far_m else inf

    def touch(self, world: World, motion_s: float) -> None:
        """Move the cube if it is time and it is not held."""
        if motion_s >= self._at_s:
            self._at_s = inf
            if world.block_positions[0, 2] < ON_THE_MAT_M and world.gripper_width > OPEN_M:
                world.push_block(self._by_m)


def pieces(
    spec: Horizon,
    seeds: Sequence[int],
    policy: FlowPolicyBackend,
    renderer: SceneRenderer,
    bumped_m: float = 0.0,
) -> list[HorizonPiece]:
    """One piece per seed, round by round, so that the policy answers all of them in one batch.

    Each round: look, infer while the arm holds, play as many steps as `spec` chooses. A piece that takes longer than
    `GIVEN_UP_S` of motion has failed. With `bumped_m` the cube moves so far, once. At most `policy.max_batch` seeds.
    """
    bumps = [Bump(seed, bumped_m) for seed in seeds]
    found = [HorizonPiece(seed) for seed in seeds]
    worlds = [World(seed) for seed in seeds]
    arms = [SynchronousArm(world) for world in worlds]
    for arm in arms:
        arm.wait()
    while open_now := [number for number, piece in enumerate(found) if piece.outcome == ONGOING]:
        seen = [look(worlds[number], renderer) for number in open_now]
        for number, answer in zip(open_now, policy.infer(seen), strict=True):
            piece = found[number]
            begun_s = piece.motion_s
            piece.horizons.append(choose(spec, answer).steps)
            for step in range(piece.horizons[-1]):
                bumps[number].touch(worlds[number], begun_s + step * STEP_S)
                arms[number].play(answer.arrays["actions"][step : step + 1])
            arms[number].wait()
            piece.outcome = worlds[number].outcome()
            if piece.outcome == ONGOING and piece.motion_s >= GIVEN_UP_S:
                piece.outcome = FAILED
    return found


def done(piece: HorizonPiece) -> bool:
    """Whether the piece ended well."""
    return piece.outcome == DONE
