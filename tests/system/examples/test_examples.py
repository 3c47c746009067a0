"""What the pages tell a newcomer to run does run: the Python quickstart, a backend of one's own, a task over ROS 2."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from rosa_client.bringup.bringup import Bringup
from rosa_client.bringup.graph import Robot
from rosa_sim.ports import free_port

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples"
PATIENCE_S = 60.0
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


@contextmanager
def served(folder: Path, factory: str) -> Iterator[str]:
    """`rosa serve` in `folder`, with ports of its own; gives its endpoint."""
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    document = {**yaml.safe_load(factory), "gateway": {"bind": endpoint, "metrics_port": 0}}
    (folder / "factory.yaml").write_text(yaml.safe_dump(document))
    command = [sys.executable, "-m", "rosa_server.cli", "serve", "factory.yaml"]
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(command, cwd=folder, env=ENVIRONMENT, stdout=log, stderr=log)
    try:
        yield endpoint
    finally:
        server.terminate()
        server.wait(PATIENCE_S)


def run(script: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(EXAMPLES / script), *arguments]
    return subprocess.run(
        command, env={**ENVIRONMENT, **environment}, capture_output=True, text=True, timeout=PATIENCE_S
    )


def code_of(page: str, name: str) -> str:
    """The block of code that begins with a comment with the name of its file."""
    found = re.search(
        rf"```\w+\n# {re.escape(name)}\n(.*?)```", (ROOT / "docs" / page).read_text(), re.DOTALL
    )
    assert found is not None, f"{page} lost its {name}"
    return found[1]


def test_the_quickstart_gets_actions_from_a_server(tmp_path: Path) -> None:
    with served(tmp_path, (EXAMPLES / "quickstart.yaml").read_text()) as endpoint:
        ended = run("quickstart.py", endpoint)
    assert ended.returncode == 0, ended.stderr
    assert re.findall(r"actions \((\d+), (\d+)\) in", ended.stdout) == [("50", "8")] * 5, ended.stdout


def test_the_backend_of_the_page_is_served_from_the_current_folder(tmp_path: Path) -> None:
    (tmp_path / "my_module.py").write_text(code_of("add_a_model.md", "my_module.py"))
    with served(tmp_path, code_of("add_a_model.md", "my_factory.yaml")) as endpoint:
        ended = run("quickstart.py", endpoint)
    assert ended.returncode == 0, ended.stderr + (tmp_path / "server.log").read_text()
    assert re.findall(r"actions \((\d+), (\d+)\) in", ended.stdout) == [("16", "8")] * 5, ended.stdout


def test_a_task_is_sent_to_the_robot_of_the_page_and_its_end_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its arm is the driver of docs/add_a_robot.md. Without a server it is not done: status 1."""
    domain = os.environ["ROS_DOMAIN_ID"]
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")
    (tmp_path / "my_arm.py").write_text(code_of("add_a_robot.md", "my_arm.py"))
    spec = yaml.safe_load((ROOT / "configs" / "robots" / "panda.yaml").read_text())
    (tmp_path / "robot.yaml").write_text(yaml.safe_dump({**spec, "arm_driver": "my_arm:MyArm"}))
    factory = tmp_path / "factory.yaml"
    factory.write_text((ROOT / "configs" / "pick_place.yaml").read_text())
    robot = Robot(
        config=str(factory),
        robot=str(tmp_path / "robot.yaml"),
        gateway=f"tcp://127.0.0.1:{free_port()}",
        namespace="example0",
    )
    with Bringup([robot], logs=tmp_path / "logs", last=True):
        refused = run("run_task.py", "example0", "no_such_task", ROS_DOMAIN_ID=domain)
        ended = run("run_task.py", "example0", "pick_and_place", "1", ROS_DOMAIN_ID=domain)
    assert "example0 rejected the task 'no_such_task'" in refused.stderr, refused.stderr
    assert "arm driver my_arm:MyArm" in (tmp_path / "logs" / "example0_arm_node.log").read_text()
    assert ended.returncode == 1, ended.stderr
    assert "failed: the task was not done within its time (0 rounds, 0 retries)" in ended.stdout, ended.stdout
