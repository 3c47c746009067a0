"""What the `rosa` command says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from rosa_server.cli import main

ROOT = Path(__file__).resolve().parents[3]
FACTORY = ROOT / "configs" / "factory.yaml"


def test_check_prints_what_a_factory_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(FACTORY)]) == 0
    shown = capsys.readouterr().out
    assert "8 x NVIDIA H200" in shown
    assert "system1: nvidia/GR00T-N1.6-3B, 200 ms, else stop_and_resend" in shown


def test_check_answers_machines_in_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["check", "--json", str(FACTORY)]) == 0
    assert json.loads(capsys.readouterr().out)["content"]["server_cluster"]["num_servers"] == 8
    broken = tmp_path / "broken.yaml"
    broken.write_text(
        FACTORY.read_text().replace("slo_ms: 200\n", "slo_ms: -5\n").replace("num_robots", "num_robot")
    )
    assert main(["check", "--json", str(broken)]) == 2
    said = json.loads(capsys.readouterr().out)
    assert not said["valid"]
    slo = {
        "path": "pick_and_place_simple.components.system1.slo_ms",
        "cause": "out_of_range",
        "words": "must be > 0, got -5",
    }
    assert slo in said["problems"]


def test_check_explains_a_broken_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_text("robot_flet: []\n")
    assert main(["check", str(path)]) == 2
    assert "robot_fle" in capsys.readouterr().err
    assert main(["check", str(tmp_path / "none.yaml")]) == 2


def test_check_knows_robot_files(capsys: pytest.CaptureFixture[str]) -> None:
    files = sorted((ROOT / "configs" / "robots").glob("*.yaml"))
    assert files, "configs/robots holds at least one robot"
    assert main(["check", str(files[0])]) == 0
    assert "a valid robot file" in capsys.readouterr().out


def test_check_prints_every_limit_of_a_robot(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(ROOT / "configs" / "robots" / "panda.yaml")]) == 0
    shown = capsys.readouterr().out
    assert "joint panda_joint1: -2.8973 .. 2.8973 rad, 2.175 rad/s, 15 rad/s^2, 7500 rad/s^3" in shown
    assert "workspace: x -0.25 .. 0.78, y -0.55 .. 0.55, z 0.005 .. 0.85 m" in shown
    assert "gripper: 0 .. 0.08 m" in shown
    for pose in ("home", "safe", "clear", "drop"):
        assert f"pose {pose}: " in shown


def test_serve_names_the_entry_that_a_model_lacks(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", str(FACTORY)]) == 2
    said = capsys.readouterr().err
    assert (
        "models.nvidia/GR00T-N1.6-3B: is missing; add `models: {nvidia/GR00T-N1.6-3B: {backend: NAME}}`"
        in said
    )


@pytest.mark.slow
def test_the_server_needs_no_ros(tmp_path: Path) -> None:
    """With rclpy and every rosidl package blocked, everything that `rosa serve` imports still imports."""
    blocker = (
        "import sys, importlib.abc\n"
        "class No(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in ('rclpy', 'sensor_msgs', 'std_msgs', 'rosa_interfaces'):\n"
        "            raise ImportError('no ROS here: ' + name)\n"
        "sys.meta_path.insert(0, No())\n"
        "import rosa_server.serving.server, rosa_server.serving.worker.worker, rosa_server.models.emulated\n"
        "from rosa_server.cli import main\n"
        f"sys.exit(main(['check', {str(FACTORY)!r}]))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", blocker]
    done = subprocess.run(command, cwd=tmp_path, env=environment, timeout=300, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()


def test_a_command_of_another_package_that_is_broken_is_named_and_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = EntryPoint("operator", "rosa_client.there_is_no_such_file", "rosa.commands")
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [broken])
    assert main(["check", str(FACTORY)]) == 0
    assert capsys.readouterr().err == ""
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    assert "rosa: the command 'operator' is not available" in capsys.readouterr().err
    assert main(["operator", "list"]) == 2
    said = capsys.readouterr().err
    assert "rosa operator: not available here: No module named" in said
    assert "--find-links .cache/wheels 'rosa-serving'" in said and "Traceback" not in said


def test_a_mistyped_command_is_answered_with_the_nearest_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chek", "factory.yaml"]) == 2
    assert capsys.readouterr().err == (
        "rosa chek: no such command (did you mean 'check'?); `rosa --help` lists them\n"
    )
    assert main(["dorctor"]) == 2
    assert "'doctor'" in capsys.readouterr().err, "of another package"
    assert main(["xyz"]) == 2
    assert "did you mean" not in capsys.readouterr().err


def test_it_says_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert re.fullmatch(r"rosa \d+\.\d+\.\d+", capsys.readouterr().out.strip())


def test_a_stop_does_not_wait_for_the_libraries_of_other_commands() -> None:
    program = (
        "import sys\n"
        "from rosa_server.cli import main\n"
        "try:\n"
        "    main(['operator', 'stop', '--help'])\n"
        "except SystemExit:\n"
        "    print(sorted({'ortools', 'pandas', 'mujoco', 'torch'} & set(sys.modules)))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env=environment,
        timeout=300,
        capture_output=True,
        text=True,
    )
    assert done.stdout.splitlines()[-1] == "[]", done.stderr


def test_a_package_that_is_on_an_index_is_named_as_pip_calls_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def lacks(_: object) -> int:
        raise ModuleNotFoundError("No module named 'yaml'", name="yaml")

    monkeypatch.setattr("rosa_server.commands.check.main", lacks)
    assert main(["check", str(FACTORY)]) == 2
    assert "`pip install PyYAML` brings it" in capsys.readouterr().err
