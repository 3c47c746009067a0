"""Robots with no gripper and with two arms, from robot file to result: all agree about the columns of an action."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from rosa_client.bringup.bringup import Bringup
from rosa_client.bringup.graph import Robot
from rosa_sim.ports import free_port

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[3]
PATIENCE_S = 90.0
FACTORY = """
server_cluster: {{num_servers: 1, gpu_type: cpu}}
robot_fleet: [{{task: hold, num_robots: 1}}]
hold:
  pipeline: {{action_period_ms: 400, execution: asynchronous}}
  components:
    system1: {{model: quick, slo_ms: 2000, fallback: stop_and_resend}}
models:
  quick:
    backend: emulated
    options: {{latency_ms: 5, dof: {columns}, images: {{front: [96, 96]}}, state: {state}}}
gateway: {{bind: "{endpoint}", metrics_port: 0}}
"""


def bare(tmp_path: Path) -> dict[str, Any]:
    """A Panda without its hand."""
    spec: dict[str, Any] = yaml.safe_load((ROOT / "configs" / "robots" / "panda.yaml").read_text())
    spec |= {"arm_driver": "echo", "gripper": {"kind": "none"}}
    return spec


def pair(tmp_path: Path) -> dict[str, Any]:
    """Two arms with a gripper each, in physics; its model answers fourteen columns."""
    spec: dict[str, Any] = yaml.safe_load((ROOT / "configs" / "robots" / "bimanual_ur5e.yaml").read_text())
    del spec["arm"]
    small = {"width": 96, "height": 96, "encoding": "jpeg", "rate_hz": 10}
    return spec | {"arm_driver": "mujoco_body", "cameras": {"front": small}}


@pytest.mark.parametrize(("body", "joints", "grippers"), [(bare, 7, 0), (pair, 12, 2)])
def test_a_robot_plays_chunks_of_its_own_joints_and_grippers(
    tmp_path: Path, body: Callable[[Path], dict[str, Any]], joints: int, grippers: int
) -> None:
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    factory, robot = tmp_path / "factory.yaml", tmp_path / "robot.yaml"
    state = f"{{joint_position: {joints}{f', gripper_width: {grippers}' if grippers else ''}}}"
    factory.write_text(FACTORY.format(endpoint=endpoint, columns=joints + grippers, state=state))
    robot.write_text(yaml.safe_dump(body(tmp_path) | {"camera_driver": "tests.system.doctor.still:Living"}))
    one = Robot(config=str(factory), robot=str(robot), gateway=endpoint, namespace="bare")
    command = [sys.executable, "-m", "rosa_server.cli", "run", "--robot", "bare", "--timeout", "6", "--json"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        with Bringup([one], server=str(factory), logs=tmp_path / "logs", last=True):
            done = subprocess.run(
                command, cwd=ROOT, env={**os.environ}, capture_output=True, text=True, timeout=PATIENCE_S
            )
    result = json.loads(done.stdout)
    assert result["outcome"] == "timed_out", (result, done.stderr)
    assert result["rounds"] >= 3, result
    lines = "".join(path.read_text() for path in (tmp_path / "logs").glob("*.log")).splitlines()
    # A robot that is up before its server says hello again; where the machine is busy, that is every robot here.
    log = "\n".join(line for line in lines if "not_ready" not in line)
    for bad in ("wrong_shape", "refused", "finger_joint", "escalate"):
        assert bad not in log, (bad, log[-2000:])
