"""The shipped policy in physics under a horizon policy: how often it succeeds, and how many inferences it needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rosa_contract.horizon import Horizon
from rosa_server.models.flow_policy import FlowPolicyBackend
from rosa_server.models.horizon import choose
from rosa_sim.cell.render import SceneRenderer
from rosa_sim.cell.rollout import INFERENCE_S, STEP_S, SynchronousArm
from rosa_sim.cell.world import World
from rosa_sim.closed_loop.cells import DONE, FAILED, GIVEN_UP_S, ONGOING
from rosa_sim.training.evaluate import look


@dataclass
class Piece:
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


def pieces(
    spec: Horizon, seeds: Sequence[int], policy: FlowPolicyBackend, renderer: SceneRenderer
) -> list[Piece]:
    """One piece per seed, round by round, so that the policy answers all of them in one batch.

    Each round: look, infer while the arm holds, play as many steps as `spec` chooses. A piece that takes longer than
    `GIVEN_UP_S` of motion has failed. At most `policy.max_batch` seeds.
    """
    found = [Piece(seed) for seed in seeds]
    worlds = [World(seed) for seed in seeds]
    arms = [SynchronousArm(world) for world in worlds]
    for arm in arms:
        arm.wait()
    while open_now := [number for number, piece in enumerate(found) if piece.outcome == ONGOING]:
        seen = [look(worlds[number], renderer) for number in open_now]
        for number, answer in zip(open_now, policy.infer(seen), strict=True):
            piece = found[number]
            piece.horizons.append(choose(spec, answer).steps)
            arms[number].play(answer.arrays["actions"], piece.horizons[-1])
            arms[number].wait()
            piece.outcome = worlds[number].outcome()
            if piece.outcome == ONGOING and piece.motion_s >= GIVEN_UP_S:
                piece.outcome = FAILED
    return found


def done(piece: Piece) -> bool:
    """Whether the piece ended well."""
    return piece.outcome == DONE
