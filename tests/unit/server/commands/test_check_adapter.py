"""`rosa check` of a factory whose model is behind an adapter: every mismatch is named before anything moves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from rosa_contract.config.factory import load_factory
from rosa_contract.config.robot import load_robot
from rosa_server.cli import main
from rosa_server.cluster.local import worker_specs
from rosa_server.models.adapters.resolving import from_data, resolve
from rosa_server.plan.placement import unplanned
from rosa_server.serving.base.worker_spec import spec_from

ROBOTS = Path("configs/robots").resolve()
Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(adapter: dict[str, Any], workers: int = 1) -> str:
        images = {"image": [224, 224]}
        options = {"images": images, "state": {"state": 8}}
        factory = {
            "server_cluster": {"num_servers": 4},
            "robot_fleet": [{"task": "pick", "num_robots": 1}],
            "pick": {
                "pipeline": {"action_period_ms": 400},
                "components": {"system1": {"model": "pi", "slo_ms": 500}},
            },
            "models": {
                "pi": {"backend": "emulated", "options": options, "workers": workers, "adapter": adapter}
            },
        }
        path = tmp_path / "factory.yaml"
        path.write_text(yaml.safe_dump(factory))
        return str(path)

    return write


def good() -> dict[str, Any]:
    return {
        "robot": str(ROBOTS / "panda.yaml"),
        "cameras": {"image": {"camera": "front", "fit": "pad"}},
        "state": {"state": [{"of": "joint_position"}, {"of": "gripper_width", "gripper": "open_fraction"}]},
        "unused": ["wrist"],
    }


PANDA = str(ROBOTS / "panda.yaml")


def test_a_camera_of_another_size_fits_when_the_adapter_says_how(
    write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", write(good()), PANDA]) == 0
    assert "panda fits pick" in capsys.readouterr().out
    exact = good() | {"cameras": {"image": {"camera": "front"}}}
    assert main(["check", write(exact), PANDA]) == 2
    assert "needs camera 'front' as 224x224 px (width x height); got 96x96" in capsys.readouterr().err


def test_mistakes_of_an_adapter_have_their_dotted_path_and_come_together(
    write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = good() | {"prompt": "{promt}", "unused": ["front"]}
    assert main(["check", write(bad, workers=2)]) == 2
    said = capsys.readouterr().err
    assert "models.pi.adapter.prompt: no field {promt}" in said
    assert "models.pi.adapter.unused: camera 'front' is unused, and given as 'image'" in said
    bad = good() | {"cameras": {"image": {"camera": "front", "fit": "pad", "history": 2}}}
    assert main(["check", write(bad, workers=2)]) == 2
    assert "cameras.image.history: expected workers: 1, got 2" in capsys.readouterr().err
    assert main(["check", write(good() | {"preset": "openpi_drid"})]) == 2
    assert "models.pi.adapter.preset: no adapter preset 'openpi_drid'" in capsys.readouterr().err


def test_what_model_and_robot_leave_over_is_named(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    bad = good() | {"cameras": {"img": {"camera": "front", "fit": "pad"}}}
    assert main(["check", write(bad), PANDA]) == 2
    said = capsys.readouterr().err
    assert "the model's camera 'image' is mapped to none of the robot's" in said
    assert "the model has no camera 'img'" in said
    assert main(["check", write(good() | {"unused": []}), PANDA]) == 2
    assert "takes nothing of the robot's camera wrist" in capsys.readouterr().err


def test_a_gripper_of_another_width_than_the_robots_is_named(
    write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", write(good() | {"gripper_open_m": 0.1}), PANDA]) == 2
    said = capsys.readouterr().err
    assert "the adapter's gripper opens 0 to 0.1 m, the robot's 0 to 0.08 m" in said


def test_a_robot_that_does_not_move_its_tool_by_itself_is_named(
    write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The model's side says in which space it answers, the robot's which ones it takes."""
    columns = ["x", "y", "z", "a", "b", "c"]
    parts = [
        {"to": "tool_position", "take": columns[:3], "mode": "step_delta"},
        {"to": "tool_rotation", "take": columns[3:], "mode": "step_delta"},
    ]
    actions = {"columns": {"actions": columns}, "parts": parts, "step_s": 0.1, "resolved_by": "robot"}
    factory = write(good() | {"actions": actions})
    assert main(["check", factory, PANDA]) == 0
    only = tmp_path / "only.yaml"
    only.write_text((ROBOTS / "panda.yaml").read_text() + "\naction_spaces: [joint_delta]\n")
    capsys.readouterr()
    assert main(["check", factory, str(only)]) == 2
    said = capsys.readouterr().err
    assert "answers tool_step_delta; the robot carries out only joint positions and joint_delta" in said


def test_a_worker_is_told_the_whole_adapter_with_paths_that_start_at_the_file(
    write: Write, tmp_path: Path
) -> None:
    (tmp_path / "arm.yaml").write_text((ROBOTS / "panda.yaml").read_text())
    factory = load_factory(write(good() | {"robot": "arm.yaml"}))
    [spec] = worker_specs(factory, unplanned(factory), "ipc://x")
    command = spec.command()
    told = spec_from(command[command.index("--spec") + 1], spec.environment({}))
    adapter = factory.models["pi"].adapter
    assert adapter is not None and adapter.robot == str(tmp_path / "arm.yaml")
    resolved = from_data(told.adapter)
    assert resolved == resolve(adapter)
    assert resolved.names == load_robot(PANDA).joints and resolved.open_m == (0.08,)
