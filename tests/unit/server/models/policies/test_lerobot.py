"""What of backend `lerobot` needs no LeRobot: what a checkpoint says that it takes. The rest: `make test-lerobot`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from rosa_server.models.registry import BackendError, create

FEATURES = {
    "observation.state": {"type": "STATE", "shape": [6]},
    "observation.environment_state": {"type": "ENV", "shape": [2]},
    "observation.images.front": {"type": "VISUAL", "shape": [3, 480, 640]},
}


def checkpoint(folder: Path, features: Any = FEATURES) -> Path:
    (folder / "config.json").write_text(json.dumps({"type": "act", "input_features": features}))
    return folder


def test_a_folder_says_what_its_policy_takes(tmp_path: Path) -> None:
    made: Any = create("lerobot", model=str(checkpoint(tmp_path)))
    assert made.input_spec.images == {"observation.images.front": (480, 640)}
    assert made.input_spec.state == {"observation.state": 6, "observation.environment_state": 2}
    assert not made.capabilities.takes_any


@pytest.mark.parametrize(
    "features",
    [
        [1],
        {"observation.state": 6},
        {"observation.state": {"type": "STATE"}},
        {"observation.state": {"type": "STATE", "shape": []}},
        {"observation.image": {"type": "VISUAL", "shape": [3]}},
    ],
)
def test_features_that_are_written_otherwise_are_left_to_lerobot(features: Any, tmp_path: Path) -> None:
    made: Any = create("lerobot", model=str(checkpoint(tmp_path, features)))
    assert made.input_spec.state == {} and made.capabilities.takes_any


def test_a_name_of_the_hub_takes_anything_until_it_is_loaded() -> None:
    made: Any = create("lerobot", model="lerobot/act_aloha_sim_transfer_cube_human")
    assert made.capabilities.takes_any


def test_without_lerobot_the_environment_that_has_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "lerobot", None)
    monkeypatch.setitem(sys.modules, "lerobot.configs.policies", None)
    with pytest.raises(BackendError, match="rosa env lerobot") as error:
        create("lerobot", model=str(checkpoint(tmp_path))).load()
    assert error.value.cause == "not_importable"
