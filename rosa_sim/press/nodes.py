"""The press task through what a real robot has: server, worker, ROS 2 nodes, `rosa run`; only the physics is ours."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from rosa_client.bringup.bringup import Bringup
from rosa_client.bringup.graph import Robot
from rosa_contract.shipped import shipped
from rosa_sim.ports import free_port

NAME = "ur5e0"
GIVEN_UP_S = 60.0
BEGINS_WITHIN_S = 120.0  # of everything, on a busy machine


def pressed_through_nodes(
    seed: int, folder: Path, given_up_s: float = GIVEN_UP_S, patient_ms: float | None = None
) -> dict[str, Any]:
    """What `rosa run` says of the task with the button of `seed`: outcome, rounds, reason. Logs go to `folder`.

    `patient_ms`: SLOs and the age of sensors, for a machine that is busy with other things; None: as the files say.
    """
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    document = yaml.safe_load(shipped("configs", "press.yaml").read_text())
    document["models"]["expert/press"]["adapter"]["robot"] = str(shipped("configs", "robots", "ur5e.yaml"))
    robot: dict[str, Any] = {"extends": str(shipped("configs", "robots", "ur5e_press.yaml"))}
    if patient_ms is not None:
        robot["max_sensor_age_ms"] = patient_ms
        for component in document["press"]["components"].values():
            component["slo_ms"] = patient_ms
    factory, body = folder / "press.yaml", folder / "robot.yaml"
    factory.write_text(yaml.safe_dump({**document, "gateway": {"bind": endpoint, "metrics_port": 0}}))
    body.write_text(yaml.safe_dump(robot))
    one = Robot(config=str(factory), robot=str(body), gateway=endpoint, namespace=NAME, seed=seed)
    command = [sys.executable, "-m", "rosa_server.cli", "run", "--robot", NAME, "--json"]
    with Bringup([one], server=str(factory), logs=folder / "logs", last=True):
        done = subprocess.run(
            [*command, "--timeout", f"{given_up_s:g}"],
            capture_output=True,
            text=True,
            timeout=given_up_s + BEGINS_WITHIN_S,
        )
    if not done.stdout.strip():
        raise RuntimeError(f"rosa run said nothing: {done.stderr.strip()[-500:]}; see {folder / 'logs'}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result
