"""The shipped weights do their work: the policy solves unseen cells by looking, the monitor tells how it went."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from rosa_contract.wire.overlap import Overlap
from rosa_server.models.backend import Backend, ModelInput
from rosa_server.models.panda.flow_policy import FlowPolicyBackend, from_network, to_network
from rosa_server.models.panda.task_monitor import TaskMonitorBackend, verdicts
from rosa_server.models.panda.vision import WEIGHTS_DIR
from rosa_server.models.registry import BackendError
from rosa_server.models.token_policy.backend import TokenPolicyBackend
from rosa_sim.cell.layout.hardware import panda
from rosa_sim.cell.render import SceneRenderer
from rosa_sim.cell.rollout import SynchronousArm
from rosa_sim.cell.world import World
from rosa_sim.training.data.looks import look
from rosa_sim.training.data.pictures import POLICY_CAMERAS
from rosa_sim.training.judge.evaluate import BLANK, UNSEEN
from rosa_sim.training.judge.trials import play_kind


@pytest.fixture(scope="module")
def policy():
    backend = FlowPolicyBackend()
    backend.load()
    return backend


@pytest.fixture(scope="module")
def monitor():
    backend = TaskMonitorBackend()
    backend.load()
    return backend


@pytest.fixture(scope="module")
def cell():
    renderer = SceneRenderer(POLICY_CAMERAS)
    yield World(0), renderer
    renderer.close()


@pytest.mark.slow
def test_the_policy_solves_two_unseen_cells_from_pictures(policy, monitor):
    for trial in play_kind((policy, {"monitor": monitor}), UNSEEN, (3, 4)):
        assert trial.outcome == "done", trial.why
        assert trial.monitor_right > 0.8 * len(trial.looks)


@pytest.mark.slow
def test_blind_it_does_not(policy):
    assert play_kind((policy, {}), BLANK, [3])[0].outcome != "done"


def test_the_monitor_tells_done_from_ongoing_from_failed(monitor, cell):
    world, renderer = cell
    for seed in (21, 22, 23):
        world.reset(seed)
        at = world.model.joint("block0").qposadr[0]
        for place, verdict in (
            (world.block_positions[0], "ongoing"),
            ([*world.bin_positions[0], 0.022], "done"),
            ([0.5, 0.9, -0.6], "failed"),
        ):
            qpos = world.qpos
            qpos[at : at + 3] = place
            world.set_state(seed, qpos)
            assert world.outcome() == verdict
            assert monitor.infer([look(world, renderer)])[0].verdict == verdict


def test_a_batch_answers_as_one_by_one_and_the_same_each_time(policy, cell):
    world, renderer = cell
    looks = []
    for seed in (31, 32, 33):
        world.reset(seed)
        looks.append(look(world, renderer))
    together = policy.infer(looks)
    for one, answer in zip(looks, together, strict=True):
        alone = policy.infer([one])[0].arrays["actions"]
        np.testing.assert_allclose(alone, answer.arrays["actions"], atol=1e-4)
        np.testing.assert_array_equal(alone, policy.infer([one])[0].arrays["actions"])


def test_chunks_are_float32_16_by_8_within_the_limits_even_for_noise(policy):
    rng = np.random.default_rng(0)
    limits = panda().limits
    for _ in range(3):
        noise = {name: rng.integers(0, 256, (96, 96, 3), dtype=np.uint8) for name in ("front", "wrist")}
        q = rng.uniform(limits.position_min_rad, limits.position_max_rad).astype(np.float32)
        state = {"joint_position": q, "gripper_width": np.array([0.08], np.float32)}
        actions = policy.infer([ModelInput("system1", images=noise, state=state)])[0].arrays["actions"]
        assert actions.shape == (16, 8)
        assert actions.dtype == np.float32
        assert np.isfinite(actions).all()
        assert (actions[:, :7] >= np.array(limits.position_min_rad) - 1e-4).all()
        assert (actions[:, :7] <= np.array(limits.position_max_rad) + 1e-4).all()
        assert ((actions[:, 7] >= 0.0) & (actions[:, 7] <= 0.0801)).all()


def test_both_are_backends_and_refuse_what_does_not_fit(policy, monitor):
    blank = np.zeros((96, 96, 3), np.uint8)
    state = {"joint_position": np.zeros(7, np.float32), "gripper_width": np.zeros(1, np.float32)}
    for backend in (policy, monitor):
        assert isinstance(backend, Backend)
        with pytest.raises(ValueError, match="'wrist' is missing"):
            backend.infer([ModelInput("x", images={"front": blank}, state=state)])
        with pytest.raises(ValueError, match=r"expected uint8 \(96, 96, 3\)"):
            backend.infer([ModelInput("x", images={"front": blank[:48], "wrist": blank}, state=state)])
        bad = dict(state, joint_position=np.full(7, np.nan, np.float32))
        with pytest.raises(ValueError, match="7 finite numbers"):
            backend.infer([ModelInput("x", images={"front": blank, "wrist": blank}, state=bad)])


def test_missing_or_foreign_weights_say_what_to_do(tmp_path):
    with pytest.raises(FileNotFoundError, match="make train"):
        FlowPolicyBackend(weights=str(tmp_path / "none.safetensors")).load()
    garbage = tmp_path / "garbage.safetensors"
    garbage.write_bytes(b"not weights")
    with pytest.raises(ValueError, match="do not fit"):
        TaskMonitorBackend(weights=str(garbage)).load()
    with pytest.raises(RuntimeError, match="load"):
        FlowPolicyBackend().infer([])


@pytest.mark.parametrize("backend", [FlowPolicyBackend, TokenPolicyBackend])
def test_weights_that_are_no_numbers_are_refused(backend, tmp_path):
    """The likeliest token of NaN is a token, and would move the arm."""
    shipped = {FlowPolicyBackend: "panda_flow_policy", TokenPolicyBackend: "panda_token_policy"}[backend]
    tensors = load_file(str(WEIGHTS_DIR / f"{shipped}.safetensors"))
    name = max(tensors)
    damaged = tensors | {name: torch.full_like(tensors[name], torch.nan)}
    save_file(damaged, str(tmp_path / "damaged.safetensors"))
    with pytest.raises(BackendError, match=f"tensor {name} has values that are not finite"):
        backend(weights=str(tmp_path / "damaged.safetensors")).load()


def test_chunks_survive_the_way_into_the_networks_units_and_back():
    tool = np.array([[0.5, 0.0, 0.2]])
    path = np.concatenate([np.full((1, 16, 3), [0.45, 0.05, 0.1]), np.full((1, 16, 1), 0.08)], axis=-1)
    np.testing.assert_allclose(from_network(to_network(path, tool), tool), path, atol=1e-6)


def test_an_unsure_monitor_says_ongoing():
    assert verdicts(np.array([[0.45, 0.55, 0.0], [0.1, 0.9, 0.0], [0.2, 0.1, 0.7]]), 0.6) == [
        "ongoing",
        "done",
        "failed",
    ]


@pytest.fixture(scope="module")
def inpainting():
    backend = FlowPolicyBackend(seam="inpaint")
    backend.load()
    return backend


def test_a_chunk_joins_the_one_that_plays(inpainting, cell):
    policy = inpainting
    world, renderer = cell
    world.reset(5)
    arm = SynchronousArm(world)
    arm.wait()
    playing = policy.infer([look(world, renderer)])[0].arrays["actions"]
    arm.play(playing, 6)
    seen = look(world, renderer)
    overlap = Overlap(playing[6:], 3, 0.05)
    free, joined = (one.arrays["actions"] for one in policy.infer([seen, replace(seen, overlap=overlap)]))
    assert joined.shape == (16, 8)
    assert np.array_equal(joined[:3], playing[6:9])
    jump = [np.abs(chunk[3, :7] - playing[8, :7]).max() for chunk in (joined, free)]
    usual = np.abs(np.diff(playing[6:, :7], axis=0)).max()
    assert jump[0] < 1.5 * usual < jump[1], (
        "it goes on at the same pace; a chunk that knows nothing jumps back"
    )
    alone = policy.infer([replace(seen, overlap=overlap)])[0].arrays["actions"]
    assert np.allclose(alone, joined, atol=1e-5), "an answer does not depend on who else is in the batch"


@pytest.mark.parametrize(
    "overlap", [Overlap(np.zeros((3, 7), np.float32), 1, 0.05), Overlap(np.zeros((3, 8)), 1, 0.02)]
)
def test_what_is_no_chunk_of_this_model_is_refused(inpainting, cell, overlap):
    world, renderer = cell
    with pytest.raises(ValueError, match="overlap: expected"):
        inpainting.infer([replace(look(world, renderer), overlap=overlap)])
