"""A bring-up without `ros2 launch` starts exactly what the robot file says: the processes are recorded, not run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from rosa_client.bringup import bringup as module
from rosa_client.bringup.bringup import Bringup, parse
from rosa_client.bringup.supervisor import BringupError, Supervisor

ROOT = Path(__file__).parents[4]
PANDA = ROOT / "configs" / "robots" / "panda.yaml"


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """Process -> its command, in the order of their start."""
    commands: dict[str, list[str]] = {}
    monkeypatch.setattr(
        Supervisor, "start", lambda self, name, command: commands.update({name: list(command)})
    )
    monkeypatch.setattr(Supervisor, "is_ready", lambda self, name: name in commands)
    monkeypatch.setattr(module.Names, "take", lambda self, names: None)
    return commands


def robot_file(folder: Path, **change: Any) -> str:
    path = folder / "robot.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(PANDA.read_text()) | change))
    return f"robot:={path}"


def bring_up(*words: str) -> None:
    robot, _ = parse(words)
    with Bringup([robot]):
        pass


def parameter(command: list[str], name: str) -> str:
    [text] = [word for word in command if word.startswith(f"{name}:=")]
    return str(yaml.safe_load(text.partition(":=")[2]))


def test_the_drivers_of_the_file_are_left_to_the_nodes(started: dict[str, list[str]]) -> None:
    bring_up()
    assert list(started) == ["panda0/arm_node", "panda0/camera_node", "panda0/runtime_node"]
    assert parameter(started["panda0/arm_node"], "driver") == ""
    assert parameter(started["panda0/arm_node"], "robot") == str(PANDA)


def test_no_camera_node_runs_beside_somebody_elses_cameras(
    started: dict[str, list[str]], tmp_path: Path
) -> None:
    bring_up(robot_file(tmp_path, camera_driver="external"))
    assert list(started) == ["panda0/arm_node", "panda0/runtime_node"]


def test_the_simulator_runs_instead_of_every_driver_when_asked_for(
    started: dict[str, list[str]], tmp_path: Path
) -> None:
    bring_up(robot_file(tmp_path, camera_driver="external"), "driver:=sim")
    for node in ("panda0/arm_node", "panda0/camera_node"):
        assert parameter(started[node], "driver") == "mujoco"


def test_a_recording_begins_before_everything_that_it_records(started: dict[str, list[str]]) -> None:
    bring_up("record:=run.mcap")
    assert next(iter(started)) == "panda0/recorder_node"
    assert parameter(started["panda0/recorder_node"], "path") == "run.mcap"


def test_nothing_starts_with_a_wrong_file(started: dict[str, list[str]], tmp_path: Path) -> None:
    with pytest.raises(BringupError, match="camera_driver: no driver 'v4l'"):
        bring_up(robot_file(tmp_path, camera_driver="v4l"))
    assert not started
