"""A whole cell under test: server, workers, ROS 2 nodes and simulated Panda, each a process of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import yaml
from rosa_interfaces.msg import RobotStatus

from rosa_client.bringup.bringup import Bringup
from rosa_client.bringup.graph import Robot, robot_graph
from rosa_sim.controller.graph import CELL, behind_ros2_control
from rosa_sim.demo.episodes import EpisodeRunner, Operator, episodes, nobody
from rosa_sim.ports import free_port

ROOT = Path(__file__).parents[3]
NAMESPACE = "cell"
TASK = "pick_and_place"
LONGEST_S = 180.0


def shipped(folder: Path) -> tuple[Path, str]:
    """The shipped factory file with a free port of its own; returns the file and the endpoint."""
    return _written(_factory(), folder)


def factory_file(folder: Path, namespace: str = NAMESPACE, **gateway: Any) -> tuple[Path, str]:
    """The same with the scripted expert and the truth for its models; `namespace`: of the robot, `gateway`: settings.

    The workers need `PYTHONPATH` to find them.
    """
    factory = _factory()
    factory["models"] = {
        name: {"backend": "tests.system.oracle:PickPlaceOracle", "options": {"namespace": namespace}}
        for name in factory["models"]
    }
    return _written(factory, folder, **gateway)


def _factory() -> dict[str, Any]:
    factory: dict[str, Any] = yaml.safe_load((ROOT / "configs" / "pick_place.yaml").read_text())
    return factory


def _written(factory: dict[str, Any], folder: Path, **gateway: Any) -> tuple[Path, str]:
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    path = folder / "pick_place.yaml"
    settings = {"bind": endpoint, "metrics_port": 0, **gateway}
    path.write_text(yaml.safe_dump(factory | {"gateway": settings}, sort_keys=False))
    return path, endpoint


@contextmanager
def cell(
    folder: Path,
    *,
    server: bool = True,
    operator: Operator = nobody,
    on_status: Callable[[RobotStatus], None] = lambda status: None,
    longest_s: float = LONGEST_S,
    robot_file: Path | None = None,
) -> Iterator[tuple[Bringup, EpisodeRunner]]:
    """A running cell; everything is ended on leaving. `robot_file`: one with an arm behind simulated controllers."""
    path, endpoint = factory_file(folder)
    robot = Robot(
        config=str(path),
        robot=str(robot_file or ROOT / "configs" / "robots" / "panda.yaml"),
        gateway=endpoint,
        namespace=NAMESPACE,
    )
    graph, scene = (behind_ros2_control, CELL) if robot_file else (robot_graph, "arm_node")
    bringup = Bringup([robot], server=str(path) if server else None, logs=folder / "logs", graph=graph)
    until_s = time.monotonic() + longest_s
    with (
        bringup,
        episodes(
            NAMESPACE,
            TASK,
            alive=lambda: f"not over after {longest_s:g} s" if time.monotonic() > until_s else "",
            operator=operator,
            on_status=on_status,
            scene=scene,
        ) as runner,
    ):
        yield bringup, runner


def workers_of(bringup: Bringup) -> list[psutil.Process]:
    """The server's worker processes."""
    children = psutil.Process(bringup.supervisor.pid("server")).children(recursive=True)
    return [child for child in children if "rosa_server.serving.worker.worker" in " ".join(child.cmdline())]
