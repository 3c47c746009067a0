"""An ACT of LeRobot, from recording to the robot: it means the same to ROSA as to LeRobot. `make test-lerobot`."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.robot.lerobot_act import through_the_nodes
from rosa_contract.config.factory import load_factory
from rosa_server.models.backend import Backend, ModelInput
from rosa_server.models.panda.kinematics import TOOL_DOWN, forward
from rosa_server.serving.worker.elsewhere import backend_of
from tests.system.server_harness import ROOT

PYTHON = os.environ.get("LEROBOT_PYTHON", "")
TRAINED = Path(os.environ.get("ROSA_ACT_POLICY", ROOT / ".cache" / "act" / "policy"))
LIMIT_S = 600.0
DEMONSTRATIONS = 3
pytestmark = pytest.mark.skipif(not PYTHON, reason="LEROBOT_PYTHON is not set; `make test-lerobot` does it")


def in_lerobots_python(*words: str) -> None:
    own = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))
    }
    told = {**own, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [PYTHON, *words], env=told, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S
    )
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything that `make train-act` makes, with hardly any of it, and what LeRobot's loop answers."""
    folder = tmp_path_factory.mktemp("act")
    steps = ["--eyes-steps=2", "--steps=2", "--joint-steps=1"]
    size = [f"--demonstrations={DEMONSTRATIONS}", "--looks=50"]
    in_lerobots_python("-m", "rosa_sim.training.act", f"--work={folder}", *size, *steps)
    in_lerobots_python(str(ROOT / "tests/lerobot/cell_answers.py"), str(folder))
    return folder


@pytest.fixture(scope="module")
def backend(work: Path) -> Iterator[Backend]:
    model = load_factory(ROOT / "configs" / "pick_place_act.yaml").models["lab/act"]
    options = {**model.options, "model": str(work / "policy")}
    one = backend_of("lab/act", replace(model, python=PYTHON, options=options))
    one.load()
    yield one
    one.close()


def test_the_recording_is_a_dataset_of_lerobots(work: Path) -> None:
    told = json.loads((work / "dataset" / "meta" / "info.json").read_text())
    assert told["total_episodes"] == DEMONSTRATIONS and told["fps"] == 20
    assert told["features"]["action"]["names"] == ["dx", "dy", "dz", "gripper"]


def test_the_wide_backbone_of_the_checkpoint_sees_as_the_narrow_one_that_was_trained(work: Path) -> None:
    with np.load(work / "answers.npz", allow_pickle=False) as held:
        assert float(held["eyes_off"]) < 1e-4


def test_what_lerobots_loop_plays_is_what_rosa_answers(work: Path, backend: Backend) -> None:
    with np.load(work / "answers.npz", allow_pickle=False) as held:
        told = dict(held)
    for index, rows in enumerate(told["rows"]):
        state = {name: told[name][index] for name in ("joint_position", "gripper_width")}
        images = {name: told[name][index] for name in ("front", "wrist")}
        [output] = backend.infer([ModelInput("system1", "pick", images, state)])
        actions = output.arrays["actions"]
        assert actions.shape == (8, 8)
        places, turns = forward(actions[:, :7])
        path = forward(state["joint_position"])[0] + np.cumsum(rows[:, :3], axis=0)
        assert places == pytest.approx(path, abs=2e-3), "the tool goes where LeRobot's rows lead it"
        assert turns == pytest.approx(np.broadcast_to(TOOL_DOWN, turns.shape), abs=0.05)
        assert actions[:, 7] == pytest.approx(np.where(rows[:, 3] > 0.04, 0.08, 0.0))
    assert np.abs(np.diff(told["rows"], axis=0)).max() > 0, "the answers depend on what is seen"


@pytest.mark.skipif(not TRAINED.is_dir(), reason=f"{TRAINED} is not there; `make train-act` makes it")
def test_a_trained_policy_finishes_tasks_through_the_nodes() -> None:
    trials = through_the_nodes(PYTHON, TRAINED.absolute(), range(900_000, 900_003))
    assert "done" in [one["outcome"] for one in trials], trials
