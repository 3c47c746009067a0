"""`rosa try --run` along an episode that LeRobot itself wrote, as pictures and as video. `make test-lerobot`.

It runs in LeRobot's environment, which has what reads such a dataset; the environment of the tests has not.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.system.server_harness import ROOT

PYTHON = os.environ.get("LEROBOT_PYTHON", "")
LIMIT_S = 600.0
pytestmark = pytest.mark.skipif(not PYTHON, reason="LEROBOT_PYTHON is not set; `make test-lerobot` does it")
OWN = {"camera": "front"}, {"camera": "wrist"}


def python(*words: str) -> subprocess.CompletedProcess[str]:
    own = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))
    }
    told = {**own, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run(
        [PYTHON, *words], env=told, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S
    )


def factory(folder: Path, front: dict[str, str], wrist: dict[str, str]) -> Path:
    adapter = {
        "cameras": {name: {**one, "fit": "stretch"} for name, one in (("front", front), ("wrist", wrist))},
        "unused": [],
    }
    told: dict[str, Any] = {
        "server_cluster": {"num_servers": 1},
        "robot_fleet": [{"task": "reach", "num_robots": 1}],
        "reach": {
            "pipeline": {"action_period_ms": 800},
            "components": {"system1": {"model": "lab/toy", "slo_ms": 500}},
        },
        "models": {
            "lab/toy": {"backend": "tests.unit.server.trying.toy:ToyPolicy", "adapter": adapter},
        },
    }
    path = folder / "factory.yaml"
    path.write_text(yaml.safe_dump(told))
    return path


@pytest.mark.parametrize("kind", ["pictures", "videos"])
def test_an_episode_of_lerobot_is_asked_along(tmp_path: Path, kind: str) -> None:
    data = tmp_path / "data"
    made = python(str(ROOT / "tests/lerobot/make_dataset.py"), str(data), kind)
    assert made.returncode == 0, made.stderr[-3000:]
    units = ["--recorded-unit", "deg", "--recorded-gripper", "open_percent", "--episode", "1"]
    for cameras, causes in ((OWN, []), (OWN[::-1], ["cameras_swapped"])):
        words = [
            "--factory",
            str(factory(tmp_path, *cameras)),
            "--run",
            str(data),
            *units,
            "--plot",
            str(tmp_path / "try.png"),
        ]
        done = python("-m", "rosa_server.cli", "try", "lab/toy", *words, "--json")
        assert done.returncode == (3 if causes else 0), done.stderr[-3000:] + done.stdout
        told = json.loads(done.stdout)
        assert [one["cause"] for one in told["suspicions"]] == causes
        assert told["steps"] > 4
