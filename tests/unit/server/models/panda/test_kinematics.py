"""The numpy kinematics agree with MuJoCo's Panda."""

from __future__ import annotations

import numpy as np
import pytest

import rosa_sim.cell.gl  # noqa: F401  # before mujoco: how to render is chosen once in a process

import mujoco  # isort: skip

from rosa_server.models.panda import kinematics
from rosa_sim.cell.layout.hardware import panda
from rosa_sim.cell.world import World

RNG = np.random.default_rng(0)
HOME = np.array(panda().home_rad)


@pytest.fixture(scope="module")
def world() -> World:
    return World(0)


def random_joints(count: int) -> np.ndarray:
    return RNG.uniform(kinematics.LOWER_RAD, kinematics.UPPER_RAD, (count, 7))


def test_forward_agrees_with_mujoco(world):
    for q in random_joints(50):
        world.data.qpos[:7] = q
        mujoco.mj_kinematics(world.model, world.data)
        position, rotation = kinematics.forward(q)
        site = world.model.site("TCP").id
        np.testing.assert_allclose(position, world.data.site_xpos[site], atol=1e-5)
        np.testing.assert_allclose(rotation, world.data.site_xmat[site].reshape(3, 3), atol=1e-5)


def test_jacobian_is_the_derivative_of_forward():
    for q in random_joints(10):
        jac = kinematics.jacobian(kinematics.CHAIN.frames(q))
        for joint in range(7):
            step = np.zeros(7)
            step[joint] = 1e-6
            moved = (kinematics.forward(q + step)[0] - kinematics.forward(q - step)[0]) / 2e-6
            np.testing.assert_allclose(jac[:3, joint], moved, atol=1e-6)


def test_inverse_reaches_the_whole_work_area_pointing_down_within_limits():
    targets = RNG.uniform([0.33, -0.33, 0.01], [0.66, 0.40, 0.40], (200, 3))
    q = kinematics.inverse(targets, np.broadcast_to(HOME, (200, 7)), iterations=30)
    position, rotation = kinematics.forward(q)
    assert np.linalg.norm(position - targets, axis=1).max() < 0.002
    assert (rotation[:, 2, 2] < -0.999).all()
    assert (q >= kinematics.LOWER_RAD).all() and (q <= kinematics.UPPER_RAD).all()


def test_out_of_reach_gives_finite_joints_within_limits():
    q = kinematics.inverse(np.array([2.0, 2.0, 2.0]), HOME, iterations=50)
    assert np.isfinite(q).all()
    assert (q >= kinematics.LOWER_RAD).all() and (q <= kinematics.UPPER_RAD).all()


def test_a_path_is_followed_without_jumps():
    path = np.linspace([0.47, 0.0, 0.30], [0.47, -0.12, 0.12], 16)
    q = kinematics.inverse_path(path[None], HOME[None])[0]
    np.testing.assert_allclose(kinematics.forward(q)[0], path, atol=0.003)
    assert np.abs(np.diff(q, axis=0)).max() < 0.1
