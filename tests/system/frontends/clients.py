"""A server with frontends, and what its clients send."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from rosa_sim.ports import free_ports
from tests.system.server_harness import PATIENCE_S, Server, serving

FACTORY = """
server_cluster: {{{{num_servers: 1}}}}
robot_fleet: [{{{{task: pick, num_robots: 4}}}}]
pick:
  pipeline: {{{{action_period_ms: 400}}}}
  components: {{{{system1: {{{{model: policy, slo_ms: 20000}}}}}}}}
models:
  policy: {{{{backend: "{backend}", options: {model}}}}}
gateway: {{{{bind: "tcp://127.0.0.1:{{port}}", metrics_port: {{metrics_port}}}}}}
frontends: {frontends}
"""
MODEL = {
    "images": {"front": [8, 8]},
    "state": {"joint_position": 7, "gripper_width": 1},
    "horizon": 3,
    "dof": 8,
}
HAND = {"gripper": "closed_fraction", "open_m": 0.08}
OPENPI = {
    "protocol": "openpi",
    "task": "pick",
    "images": {"front": {"key": "observation/image", "height": 8, "width": 8, "fit": "pad"}},
    "state": {
        "joint_position": [{"key": "observation/joint_position", "count": 7, "unit": "deg"}],
        "gripper_width": [{"key": "observation/gripper_position", **HAND}],
    },
    "actions": {"actions": [{"columns": [*range(7)], "unit": "deg"}, {"columns": [7], **HAND}]},
    "metadata": {"robot": "panda"},
}
GRIPPER = 0.25  # of a closed one
JOINTS_DEG = np.array([10.0, -20.0, 30.0, -40.0, 50.0, 60.0, 70.0])


def observation(**changes: Any) -> dict[str, Any]:
    """As an openpi client sends it."""
    return {
        "observation/image": np.zeros((16, 16, 3), np.uint8),
        "observation/joint_position": JOINTS_DEG,
        "observation/gripper_position": np.array([GRIPPER]),
        "prompt": "pick the cube",
        **changes,
    }


@contextmanager
def with_frontends(
    folder: Path,
    model: dict[str, Any] | None = None,
    wait: bool = True,
    backend: str = "emulated",
    **frontends: dict[str, Any],
) -> Iterator[tuple[Server, dict[str, int]]]:
    """`rosa serve`, and the ports of its frontends. `model`: more options of the emulated one, or all of another."""
    ports = dict(zip(frontends, free_ports(len(frontends)), strict=True))
    told = {name: {"bind": f"127.0.0.1:{ports[name]}", **one} for name, one in frontends.items()}
    options = {**(MODEL if backend == "emulated" else {}), **(model or {})}
    braces = (json.dumps(part).replace("{", "{{").replace("}", "}}") for part in (options, told))
    written, section = braces
    factory = FACTORY.format(backend=backend, model=written, frontends=section)
    arguments = told.get("arguments", ())
    with serving(folder, factory=factory, arguments=arguments) as server:
        if wait:
            ready(server)
        yield server, ports


def ready(server: Server) -> None:
    """Wait until models and frontends are."""
    until_s = time.monotonic() + PATIENCE_S
    while "ROSA is ready" not in server.log():
        assert server.process is not None and server.process.poll() is None, server.log()
        assert time.monotonic() < until_s, server.log()
        time.sleep(0.05)


def metrics(server: Server) -> dict[str, float]:
    """Every sample of the metrics page by its name and labels."""
    with urllib.request.urlopen(
        f"http://127.0.0.1:{server.metrics_port}/metrics", timeout=PATIENCE_S
    ) as page:
        lines = page.read().decode().splitlines()
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if line[:1] != "#"}
