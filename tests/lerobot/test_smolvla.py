"""A small SmolVLA, its vision-language model too, answers through ROSA as LeRobot alone. `make test-lerobot`."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from rosa_contract.config.models import Model
from rosa_server.models.backend import Backend, ModelInput
from rosa_server.serving.worker.elsewhere import backend_of

PYTHON = os.environ.get("LEROBOT_PYTHON", "")
MAKE = Path(__file__).parent / "make_smolvla.py"
PROMPTS = ("press the red button", "press the blue button", "lift the cube")
SEED = 7
pytestmark = pytest.mark.skipif(not PYTHON, reason="LEROBOT_PYTHON is not set; `make test-lerobot` does it")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("smolvla")
    told = {**os.environ, "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [PYTHON, str(MAKE), str(made)], env=told, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return made


@pytest.fixture(scope="module")
def backend(folder: Path) -> Iterator[Backend]:
    options = {"model": str(folder / "policy"), "max_batch": 3, "seed": SEED}
    one = backend_of("smolvla", Model("lerobot", options, python=PYTHON))
    one.load()
    yield one
    one.close()


def observations(folder: Path) -> tuple[list[ModelInput], np.ndarray]:
    with np.load(folder / "answers.npz", allow_pickle=False) as held:
        told = dict(held)
    seen = [
        ModelInput(
            "system1",
            prompt,
            {"observation.images.front": told["pictures"][row]},
            {"observation.state": told["states"][row]},
        )
        for row, prompt in enumerate(PROMPTS)
    ]
    return seen, told["chunks"]


def test_a_smolvla_answers_as_lerobot_alone(folder: Path, backend: Backend) -> None:
    seen, expected = observations(folder)
    got = np.stack([backend.infer([one])[0].arrays["action"] for one in seen])
    assert got.shape == expected.shape == (3, 8, 6)
    largest = float(np.abs(got - expected).max())
    print(f"largest difference {largest:.1e} of values up to {np.abs(expected).max():.1f}")
    assert largest < 1e-4


def test_its_answer_depends_on_the_words_and_with_a_seed_on_nothing_that_was_asked_before(
    folder: Path, backend: Backend
) -> None:
    [one, *_], _ = observations(folder)
    other = ModelInput("system1", PROMPTS[2], one.images, one.state)
    first, told_otherwise, again = (backend.infer([asked])[0].arrays["action"] for asked in (one, other, one))
    assert np.array_equal(first, again)
    assert np.abs(first - told_otherwise).max() > 1e-6
