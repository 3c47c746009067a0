"""ROSA as it is served: one worker, its gateway, both frontends; and the Python client."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import yaml

from benchmarks.frontends.peers import ALONE_MS, CAMERAS, FULL, PER_ITEM_MS, SIZE, SLO_MS, STATE, NoAnswer
from rosa_client import Robot, RobotError

TASK = "bench"


def factory(folder: Path, gateway: int, openpi: int, gr00t: int) -> Path:
    """A factory file in `folder`, with these ports."""

    def frontend(
        protocol: str, port: int, image: str, state: str, actions: str, prompt: str
    ) -> dict[str, object]:
        return {
            "protocol": protocol,
            "task": TASK,
            "bind": f"127.0.0.1:{port}",
            "prompt_key": prompt,
            "images": {one: {"key": image + one, "height": SIZE, "width": SIZE} for one in CAMERAS},
            "state": {"state": [{"key": state, "count": STATE}]},
            "actions": {actions: [{"columns": [*range(STATE)]}]},
        }

    model = {
        "latency_ms": ALONE_MS - PER_ITEM_MS,
        "per_item_ms": PER_ITEM_MS,
        "max_batch": FULL,
        "images": {camera: [SIZE, SIZE] for camera in CAMERAS},
        "state": {"state": STATE},
        "horizon": 50,
        "dof": STATE,
    }
    told = {
        "server_cluster": {"num_servers": 1},
        "robot_fleet": [{"task": TASK, "num_robots": 64}],
        TASK: {
            "pipeline": {"action_period_ms": 100},
            "components": {"system1": {"model": "policy", "slo_ms": SLO_MS}},
        },
        "models": {"policy": {"backend": "emulated", "options": model}},
        "gateway": {"bind": f"tcp://127.0.0.1:{gateway}", "metrics_port": 0},
        "frontends": {
            "openpi": frontend("openpi", openpi, "", "state", "actions", ""),
            "gr00t": frontend("gr00t", gr00t, "video.", "state.state", "action.actions", "annotation.task"),
        },
    }
    path = folder / "factory.yaml"
    path.write_text(yaml.safe_dump(told))
    return path


class Client:
    def __init__(self, address: str) -> None:
        self._robot = Robot(address, TASK, deadline_ms=SLO_MS, encoding="rgb8")

    def call(self, seen: dict[str, np.ndarray]) -> np.ndarray:
        try:
            return self._robot.infer(seen).actions
        except RobotError as error:
            raise NoAnswer(f"{error.cause}: {error}") from error

    def close(self) -> None:
        self._robot.close()
