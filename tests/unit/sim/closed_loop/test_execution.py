"""The shipped policy in physics under the real core: asynchronous execution, and horizons that are chosen."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from rosa_contract.config.factory import parse_factory
from rosa_contract.config.tasks import Task
from rosa_contract.wire.horizon import Horizon
from rosa_server.models.panda.flow_policy import FlowPolicyBackend
from rosa_sim.cell.layout.hardware import panda
from rosa_sim.cell.render import SceneRenderer
from rosa_sim.cell.world import World
from rosa_sim.closed_loop.asynchronous import INPAINT, PERIOD_S, SWITCH, Shop, episode
from rosa_sim.closed_loop.horizons import Bump, done, pieces
from rosa_sim.training.data.pictures import POLICY_CAMERAS

TASK = """
server_cluster: {{num_servers: 1}}
robot_fleet: [{{task: pick, num_robots: 1}}]
pick:
  pipeline: {{action_period_ms: 400, execution: {execution}}}
  components: {{system1: {{model: policy, slo_ms: 500}}}}
"""
SEED = 4_000_100


@pytest.fixture(scope="module")
def policy() -> FlowPolicyBackend:
    made = FlowPolicyBackend(seam=INPAINT)
    made.load()
    return made


@pytest.fixture(scope="module")
def renderer() -> Iterator[SceneRenderer]:
    made = SceneRenderer(POLICY_CAMERAS)
    yield made
    made.close()


def task(execution: str) -> Task:
    return parse_factory(TASK.format(execution=execution)).tasks["pick"]


@pytest.mark.slow
def test_a_piece_is_done_sooner_when_the_next_chunk_is_inferred_while_one_plays(
    policy: FlowPolicyBackend, renderer: SceneRenderer
) -> None:
    world = World(SEED)
    waits = episode(SEED, task("synchronous"), Shop(policy, 0.24, SWITCH), world, renderer)
    flows = episode(SEED, task("asynchronous"), Shop(policy, 0.24, INPAINT), world, renderer)
    assert (waits.outcome, flows.outcome) == ("done", "done")
    assert waits.joined == 0
    assert flows.joined == flows.rounds - 1, "every chunk but the first joins the one before"
    assert flows.task_s < waits.task_s - 0.2 * (waits.rounds - 3)
    jerk = np.abs(np.diff(flows.setpoints_rad, 3, axis=0)).max(axis=0) / PERIOD_S**3
    assert (jerk <= np.array(panda().limits.jerk_rad_s3) * (1 + 1e-6)).all()


@pytest.mark.slow
def test_pieces_play_the_horizon_that_their_policy_chooses(
    policy: FlowPolicyBackend, renderer: SceneRenderer
) -> None:
    [static] = pieces(Horizon("static", steps=8), [SEED], policy, renderer)
    [chosen] = pieces(Horizon("threshold", t=0.3, min=2), [SEED], policy, renderer)
    assert done(static)
    assert done(chosen)
    assert set(static.horizons) == {8}
    assert len(set(chosen.horizons)) > 1
    assert min(chosen.horizons) >= 2
    assert max(chosen.horizons) <= 16


def test_a_bump_moves_the_cube_once_and_never_off_the_mat() -> None:
    for seed in range(8):
        world, bump = World(seed), Bump(seed, 0.06)
        begun = world.block_positions[0]
        bump.touch(world, 0.0)
        assert np.array_equal(world.block_positions[0], begun), "not before its time"
        bump.touch(world, 5.0)
        moved = world.block_positions[0]
        assert np.linalg.norm(moved - begun) == pytest.approx(0.06)
        assert world.blocks[0].place == "mat"
        bump.touch(world, 6.0)
        assert np.array_equal(world.block_positions[0], moved)
