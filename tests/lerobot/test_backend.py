"""Backend `lerobot` in LeRobot's own environment: it answers what LeRobot answers alone. `make test-lerobot`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rosa_contract.config.adapter import ActionPart, Actions, Adapter, CameraInput, StatePart
from rosa_contract.config.models import Model
from rosa_server.models.backend import Backend, ModelInput
from rosa_server.models.registry import BackendError
from rosa_server.serving.worker.elsewhere import backend_of

PYTHON = os.environ.get("LEROBOT_PYTHON", "")
MAKE = Path(__file__).parent / "make_policy.py"
MADE_WITHIN_S = 600.0
pytestmark = pytest.mark.skipif(not PYTHON, reason="LEROBOT_PYTHON is not set; `make test-lerobot` does it")
JOINTS = tuple(f"j{number}" for number in range(1, 7))


def made(name: str, folder: Path) -> Path:
    """A checkpoint of LeRobot, and beside it what LeRobot answers."""
    done = subprocess.run(
        [PYTHON, str(MAKE), name, str(folder)], capture_output=True, text=True, timeout=MADE_WITHIN_S
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def act(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made("act", tmp_path_factory.mktemp("act"))


def served(folder: Path, adapter: Adapter | None = None, **options: Any) -> Backend:
    model = Model(
        "lerobot", {"model": str(folder), "max_batch": 4, **options}, python=PYTHON, adapter=adapter
    )
    return backend_of("theirs", model)


@pytest.fixture(scope="module")
def backend(act: Path) -> Iterator[Backend]:
    one = served(act)
    one.load()
    yield one
    one.close()


def observations(
    folder: Path, images: str = "observation.images.", state: str = "observation.state"
) -> list[ModelInput]:
    with np.load(folder / "answers.npz", allow_pickle=False) as held:
        pictures, states = held["pictures"], held["states"]
    return [
        ModelInput(
            "system1",
            "press",
            {f"{images}front": pictures[row, 0], f"{images}wrist": pictures[row, 1]},
            {state: states[row]},
        )
        for row in range(len(states))
    ]


def answers(folder: Path) -> np.ndarray:
    with np.load(folder / "answers.npz", allow_pickle=False) as held:
        return np.array(held["chunks"])


def test_a_batch_is_answered_as_lerobot_answers_each_alone(backend: Backend, act: Path) -> None:
    outputs = backend.infer(observations(act))
    expected = answers(act)
    got = np.stack([one.arrays["action"] for one in outputs])
    assert got.shape == expected.shape == (3, 8, 6)
    largest = float(np.abs(got - expected).max())
    print(f"largest difference {largest:.1e} of values up to {np.abs(expected).max():.1f}")
    assert largest < 1e-5
    assert np.abs(np.diff(expected, axis=0)).max() > 1e-3, "the answers depend on what is seen"


def test_what_it_takes_is_known_before_and_after_it_is_loaded(backend: Backend, act: Path) -> None:
    sizes = {"observation.images.front": (64, 64), "observation.images.wrist": (64, 64)}
    for one in (backend, served(act)):
        assert one.input_spec.images == sizes and one.input_spec.state == {"observation.state": 6}


def test_behind_an_adapter_it_drives_a_robot_of_other_names(act: Path) -> None:
    columns = {"action": JOINTS}
    adapter = Adapter(
        cameras={
            f"observation.images.{name}": CameraInput(name, fit="stretch") for name in ("front", "wrist")
        },
        state={"observation.state": (StatePart("joint_position", take=tuple(range(6))),)},
        actions=Actions(columns, (ActionPart("joints", JOINTS),), step_s=0.05),
    )
    one = served(act, adapter)
    one.load()
    try:
        seen = observations(act, "", "joint_position")
        got = np.stack([output.arrays["actions"] for output in one.infer(seen)])
    finally:
        one.close()
    assert got == pytest.approx(answers(act), abs=1e-5)


def test_a_policy_of_several_observations_is_refused_or_told_the_newest_for_each(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = made("diffusion", tmp_path / "diffusion")
    one = served(folder)
    with pytest.raises(BackendError):
        one.load()
    one.close()
    assert "looks at 2 observations" in capfd.readouterr().err
    one = served(folder, repeat_observation=True)
    one.load()
    try:
        outputs = one.infer(observations(folder))
    finally:
        one.close()
    assert [output.arrays["action"].shape for output in outputs] == [(7, 6)] * 3


def broken(act: Path, tmp_path: Path, what: str) -> Path:
    folder = tmp_path / "broken"
    shutil.copytree(act, folder)
    config = json.loads((folder / "config.json").read_text())
    if what == "weights":
        (folder / "model.safetensors").unlink()
    elif what == "processors":
        (folder / "policy_preprocessor.json").unlink()
    elif what == "kind":
        config["type"] = "astrology"
    else:
        config["dim_model"] = 64
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("weights", "model.safetensors"),
        ("processors", "policy_preprocessor.json: no such file"),
        ("kind", "astrology"),
        ("shapes", "size mismatch"),
    ],
)
def test_what_is_wrong_with_a_checkpoint_is_said_before_the_worker_is_ready(
    what: str, words: str, act: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    one = served(broken(act, tmp_path, what))
    with pytest.raises(BackendError):
        one.load()
    one.close()
    assert words in capfd.readouterr().err
