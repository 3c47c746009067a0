"""Backend `jax_policy` with the shipped policy in JAX, in a worker of its own environment: `make test-jax`."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rosa_contract.config.models import Model
from rosa_server.models.backend import Backend, ModelInput
from rosa_server.models.panda import flow_policy
from rosa_server.models.panda.common import INPUT_SPEC
from rosa_server.models.panda.vision import WEIGHTS_DIR
from rosa_server.models.registry import BackendError
from rosa_server.serving.worker.elsewhere import backend_of

PYTHON = os.environ.get("ROSA_JAX_PYTHON", str(Path(".venv-jax/bin/python").absolute()))
WEIGHTS = WEIGHTS_DIR / "panda_flow_policy.safetensors"
TWIN = "rosa_server.models.panda.flow_policy_jax:policy"
HOME = np.array([0.0, -0.2053, 0.0, -2.3561, 0.0, 2.1508, 0.7854])


def jax_policy(parameters: Path, policy: str = TWIN, **more: Any) -> Backend:
    options = {
        "policy": policy,
        "parameters": str(parameters),
        "images": {name: list(size) for name, size in INPUT_SPEC.images.items()},
        "state": dict(INPUT_SPEC.state),
        "answers": "tool_delta",
        "max_batch": 4,
    }
    return backend_of("twin", Model("jax_policy", options | more, python=PYTHON))


@pytest.fixture(scope="module")
def torch_twin() -> flow_policy.FlowPolicyBackend:
    made = flow_policy.FlowPolicyBackend()
    made.load()
    return made


def observations(count: int) -> list[ModelInput]:
    """Pictures with some structure, and the arm near home."""
    rng = np.random.default_rng(5)
    ways = np.linspace(0, 6, 96)
    made = []
    for _ in range(count):
        waves = np.sin(ways[:, None] * rng.uniform(0.5, 3) + ways[None] * rng.uniform(0.5, 3))
        picture = 128 + 60 * waves[..., None] * rng.uniform(-1, 1, 3) + rng.normal(0, 8, (96, 96, 3))
        images = {
            name: np.clip(picture + rng.normal(0, 20), 0, 255).astype(np.uint8) for name in INPUT_SPEC.images
        }
        state = {
            "joint_position": (HOME + rng.normal(0, 0.1, 7)).astype(np.float32),
            "gripper_width": rng.uniform(0, 0.08, 1).astype(np.float32),
        }
        made.append(ModelInput("system1", images=images, state=state))
    return made


@pytest.fixture(scope="module")
def with_noise(tmp_path_factory: pytest.TempPathFactory, torch_twin: Any) -> Path:
    """The shipped weights as .npz, and the noise with which PyTorch's twin begins."""
    path = tmp_path_factory.mktemp("jax") / "policy.npz"
    noise = torch.randn(1, flow_policy.CHUNK, generator=torch.Generator().manual_seed(0))[0]
    tensors = {name: value.numpy() for name, value in torch_twin.network.state_dict().items()}
    np.savez(path, noise=noise.numpy(), **tensors)
    return path


@pytest.fixture(scope="module")
def backend(with_noise: Path) -> Iterator[Backend]:
    made = jax_policy(with_noise)
    made.load()
    yield made
    made.close()


def test_the_shipped_policy_in_jax_answers_as_its_twin_in_torch(backend: Backend, torch_twin: Any) -> None:
    batch = observations(3)  # padded to 4
    theirs = backend.infer(batch)
    look = torch_twin.look(batch)
    noise = torch.randn(1, flow_policy.CHUNK, generator=torch.Generator().manual_seed(0))
    network = torch_twin.network
    with torch.no_grad():
        chunks = network.sample(network.see(*look.pictures, look.told), noise.expand(3, -1)).numpy()
    path = flow_policy.from_network(chunks, look.tool_m)
    moved = largest = 0.0
    for row, output in enumerate(theirs):
        answer = output.arrays["tool_delta"]
        assert answer.shape == (16, 7) and answer.dtype == np.float32
        deltas = path[row, :, :3] - look.tool_m[row]
        largest = max(largest, float(np.abs(answer[:, :3] - deltas).max()))
        assert np.array_equal(answer[:, 6], path[row, :, 3] / flow_policy.MAX_WIDTH_M)
        assert output.arrays["step_s"] == pytest.approx([0.05])
        moved = max(moved, float(np.abs(deltas).max()))
    assert largest < 1e-5, "m"
    assert moved > 0.01, "the chunks go somewhere"
    print(f"largest difference {largest:.1e} m")


def test_an_answer_does_not_depend_on_who_else_is_in_the_batch(backend: Backend) -> None:
    first, second = observations(2)
    together = backend.infer([first, second])[1].arrays["tool_delta"]
    assert backend.infer([second])[0].arrays["tool_delta"] == pytest.approx(together, abs=1e-5)


def test_the_gateway_is_told_what_it_takes_and_in_which_space_it_answers(backend: Backend) -> None:
    spec = backend.input_spec
    assert (spec.images, spec.state) == (dict(INPUT_SPEC.images), dict(INPUT_SPEC.state))
    assert spec.actions == "tool_delta" and backend.max_batch == 4


def test_the_shipped_weights_are_read_as_they_are() -> None:
    made = jax_policy(WEIGHTS)
    made.load()
    try:
        [one] = made.infer(observations(1))
        [again] = made.infer(observations(1))
        assert one.arrays["tool_delta"].shape == (16, 7)
        assert np.array_equal(one.arrays["tool_delta"], again.arrays["tool_delta"]), (
            "the same key for every call"
        )
    finally:
        made.close()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"parameters": "/nowhere/policy.npz"}, "/nowhere/policy.npz: no such file or folder"),
        ({"state": {"joint_position": 6, "gripper_width": 1}}, "cannot use"),
        ({"policy": "rosa_server.models.panda.flow_policy_jax:polcy"}, "has no attribute 'polcy'"),
        ({"policy": "nobodys_module:policy"}, "No module named 'nobodys_module'"),
    ],
)
def test_what_is_wrong_is_one_line_before_the_worker_is_ready(
    change: dict[str, Any], words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    made = jax_policy(**({"parameters": WEIGHTS} | change))
    with pytest.raises(BackendError):
        made.load()
    made.close()
    assert words in capfd.readouterr().err


SAVE = """
import sys
import numpy as np
import orbax.checkpoint as orbax
from safetensors.numpy import load_file
saver = orbax.StandardCheckpointer()
saver.save(sys.argv[2], load_file(sys.argv[1]))
saver.wait_until_finished()
"""


def test_a_folder_of_orbax_answers_as_the_file_that_it_was_made_of(tmp_path: Path) -> None:
    folder = tmp_path / "policy"
    words = [PYTHON, "-c", SAVE, str(WEIGHTS), str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    answers = []
    for parameters in (WEIGHTS, folder):
        made = jax_policy(parameters)
        made.load()
        try:
            [one] = made.infer(observations(1))
        finally:
            made.close()
        answers.append(one.arrays["tool_delta"])
    assert np.array_equal(*answers)
