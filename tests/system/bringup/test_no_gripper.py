"""An arm without a gripper from robot file to result: server, model, runtime and arm agree about its columns."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

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
    options: {{latency_ms: 5, dof: 7, images: {{front: [96, 96]}}, state: {{joint_position: 7}}}}
gateway: {{bind: "{endpoint}", metrics_port: 0}}
"""


def test_a_robot_without_a_gripper_plays_chunks_of_its_joints(tmp_path: Path) -> None:
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    factory, robot = tmp_path / "factory.yaml", tmp_path / "robot.yaml"
    factory.write_text(FACTORY.format(endpoint=endpoint))
    spec = yaml.safe_load((ROOT / "configs" / "robots" / "panda.yaml").read_text())
    spec |= {"arm_driver": "echo", "camera_driver": "tests.system.doctor.still:Living"}
    spec["gripper"] = {"kind": "none"}
    robot.write_text(yaml.safe_dump(spec))
    bare = Robot(config=str(factory), robot=str(robot), gateway=endpoint, namespace="bare")
    command = [sys.executable, "-m", "rosa_server.cli", "run", "--robot", "bare", "--timeout", "6", "--json"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        with Bringup([bare], server=str(factory), logs=tmp_path / "logs", last=True):
            done = subprocess.run(
                command, cwd=ROOT, env={**os.environ}, capture_output=True, text=True, timeout=PATIENCE_S
            )
    result = json.loads(done.stdout)
    assert result["outcome"] == "timed_out", (result, done.stderr)
    assert result["rounds"] >= 3, result
    log = "".join(path.read_text() for path in (tmp_path / "logs").glob("*.log"))
    for bad in ("wrong_shape", "refused", "finger_joint", "escalate"):
        assert bad not in log, bad
