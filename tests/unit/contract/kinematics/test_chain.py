"""The kinematics of the robot file's chain agrees with the simulated arm."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest

from rosa_contract.config.body.chain import ChainSpec
from rosa_contract.config.robot import load_robot
from rosa_contract.kinematics.chain import Chain
from rosa_sim.cell.world import World

SPEC = load_robot(Path(__file__).parents[4] / "configs" / "robots" / "panda.yaml")
BODIES = {"elbow": "panda_link4", "wrist": "panda_link6", "flange": "panda_link8"}


@pytest.fixture(scope="module")
def chain() -> Chain:
    assert SPEC.chain is not None
    return Chain(SPEC.chain)


@pytest.fixture(scope="module")
def joints() -> np.ndarray:
    limits = SPEC.limits
    rng = np.random.default_rng(4)
    return rng.uniform(limits.position_min_rad, limits.position_max_rad, (60, limits.dof))


def test_every_point_is_where_the_simulated_arm_has_it(chain: Chain, joints: np.ndarray) -> None:
    world = World(0)
    for q in joints[:20]:
        world.data.qpos[:7] = q
        mujoco.mj_forward(world.model, world.data)
        expected = {name: world.data.body(body).xpos for name, body in BODIES.items()}
        expected["tool"] = world.tool_position
        for name, point in zip(chain.names, chain.points(q), strict=True):
            np.testing.assert_allclose(point, expected[name], atol=1e-4, err_msg=name)


def test_one_and_many_joint_positions_give_the_same(chain: Chain, joints: np.ndarray) -> None:
    many = chain.points(joints.reshape(3, 20, 7))
    assert many.shape == (3, 20, 4, 3)
    np.testing.assert_allclose(many[2, 19], chain.points(joints[-1]), atol=1e-12)
    np.testing.assert_allclose(many[..., -1, :], chain.tool(joints.reshape(3, 20, 7)), atol=1e-12)


def test_in_plain_numbers_it_is_the_same(chain: Chain, joints: np.ndarray) -> None:
    for q in joints:
        np.testing.assert_allclose(chain.places(q.tolist()), chain.points(q), atol=1e-12)


def test_a_flange_row_that_turns_is_not_forgotten() -> None:
    """One joint; the flange is turned by 90 degrees about x and 0.2 m out along its own z, the tool 0.1 m further."""
    chain = Chain(ChainSpec((0.0, 0.5), (0.3, 0.2), (0.0, -np.pi / 2), tool_offset_m=0.1))
    assert chain.names == ("flange", "tool")
    np.testing.assert_allclose(chain.points([0.0]), [[0.5, 0.2, 0.3], [0.5, 0.3, 0.3]], atol=1e-12)
    np.testing.assert_allclose(chain.tool([np.pi / 2]), [-0.3, 0.5, 0.3], atol=1e-12)


def test_the_wrong_number_of_joints_is_named(chain: Chain) -> None:
    with pytest.raises(ValueError, match=r"expected 7 joint positions in the last axis, got shape \(6,\)"):
        chain.tool(np.zeros(6))
