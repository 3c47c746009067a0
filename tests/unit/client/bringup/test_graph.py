"""The list of nodes is complete, and the supervisor and the launch file both start exactly that list."""

from __future__ import annotations

import ast
import re
from dataclasses import fields, replace
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from rosa_client.bringup.bringup import BringupError, node_command, parse
from rosa_client.bringup.graph import (
    DRIVERS,
    Cell,
    NodeSpec,
    Robot,
    bases_of,
    panel,
    recorder,
    robot_graph,
    robots_of,
)
from rosa_client.drivers.arms import ARM_DRIVERS
from rosa_client.drivers.cameras import CAMERA_DRIVERS
from rosa_client.executables import module_of

ROOT = Path(__file__).parents[4]
LAUNCH = ROOT / "launch" / "pick_place.launch.py"
PANDA = Robot(robot=str(ROOT / "configs" / "robots" / "panda.yaml"))


def test_every_node_is_an_executable_of_the_package() -> None:
    [installed] = re.findall(
        r'scripts=\[f"resource/nodes/{node}_node" for node in \((.*)\)\]', (ROOT / "setup.py").read_text()
    )
    for node in [*robot_graph(PANDA), recorder(PANDA), panel([PANDA], Cell())]:
        module = module_of(node.executable)
        assert f'"{node.executable.removesuffix("_node")}"' in installed
        assert find_spec(module) is not None
        command = node_command(node)
        assert (command[1], command[3]) == ("-SP", module), "as the first line of what is installed there"
        assert (ROOT / "resource" / "nodes" / node.executable).resolve() == Path(command[2])


def test_every_driver_of_the_graph_exists() -> None:
    assert DRIVERS["robot"] == ("", ""), "the nodes then take the robot file's"
    named = {kind: drivers for kind, drivers in DRIVERS.items() if kind != "robot"}
    assert named
    for arm, camera in named.values():
        assert find_spec(ARM_DRIVERS[arm].split(":")[0]) is not None
        assert find_spec(CAMERA_DRIVERS[camera].split(":")[0]) is not None


def test_all_nodes_of_a_robot_live_in_its_namespace() -> None:
    assert [node.full_name for node in robot_graph(replace(PANDA, namespace="/left/"))] == [
        "/left/arm_node",
        "/left/camera_node",
        "/left/runtime_node",
    ]


def test_a_robot_is_started_with_the_drivers_of_its_file_unless_told_otherwise() -> None:
    given = {node.name: node.parameters.get("driver") for node in robot_graph(PANDA)}
    assert (given["arm_node"], given["camera_node"]) == ("", "")
    given = {
        node.name: node.parameters.get("driver") for node in robot_graph(replace(PANDA, driver="replay"))
    }
    assert (given["arm_node"], given["camera_node"]) == ("echo", "replay")


def test_an_unknown_driver_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="expected one of replay, robot, sim, got 'franka'"):
        robot_graph(replace(PANDA, driver="franka"))


def test_parameters_keep_their_types_on_the_way_to_a_node() -> None:
    values = {"text": "true", "flag": True, "empty": "", "count": 3, "rate": 2.5}
    command = node_command(NodeSpec("arm_node", "arm_node", "/a", values))
    given = [part.split(":=", 1) for part in command if ":=" in part and not part.startswith("__")]
    assert {name: yaml.safe_load(text) for name, text in given} == values


def test_bring_up_and_launch_take_the_same_arguments() -> None:
    names = {entry.name for entry in (*fields(Robot), *fields(Cell))}
    assert {"fleet", "panel", "start_server"} <= names
    assert {"config", "robot", "gateway", "driver", "namespace", "use_sim_time", "record"} <= names
    assert all(entry.metadata["doc"] for entry in (*fields(Robot), *fields(Cell)))
    called = {
        node.func.id
        for node in ast.walk(ast.parse(LAUNCH.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert "robot_graph" in called
    text = LAUNCH.read_text()
    assert "for name, entry in ENTRIES.items()" in text
    written = set(re.findall(r'executable="(\w+)"', text))
    assert written == {"rviz2"}, "no other node is written in the launch file itself"


def test_arguments_of_the_bring_up_are_checked() -> None:
    robot, cell = parse(["namespace:=left", "use_sim_time:=true", "seed:=7", "start_server:=True"])
    assert (robot.namespace, robot.use_sim_time, robot.seed, cell.start_server) == ("left", True, 7, True)
    assert Path(robot.config).name == "pick_place.yaml"
    for wrong, says in (
        ("seed:=x", "whole number"),
        ("nonsense:=1", "no argument 'nonsense'; known: config, robot,"),
        ("seed", "name:=value"),
    ):
        with pytest.raises(BringupError, match=says):
            parse([wrong])


def test_a_fleet_is_every_robot_of_the_factory_file_with_its_task() -> None:
    config = str(ROOT / "configs" / "two_robots.yaml")
    given = replace(PANDA, config=config, record="runs/x/run.mcap", seed=5)
    first, second = robots_of(given, Cell(fleet=True))
    assert (first.namespace, first.task, first.seed) == ("panda0", "pick_and_place", 5)
    assert (second.namespace, second.task, second.seed) == ("panda1", "pick_and_place_carefully", 6)
    assert second.record == "runs/x/run_panda1.mcap", "each has a recording of its own"
    [runtime] = [node for node in robot_graph(second) if node.name == "runtime_node"]
    assert runtime.parameters["task"] == "pick_and_place_carefully"
    assert runtime.parameters["recording"] == second.record, "its reports tell where it is recorded"
    assert robots_of(given, Cell()) == [given]


def test_a_fleet_counts_on_from_the_namespace_that_is_given() -> None:
    given = Robot(config=str(ROOT / "configs" / "two_robots.yaml"), namespace="/left7/")
    assert [robot.namespace for robot in robots_of(given, Cell(fleet=True))] == ["left7", "left8"]


def test_robots_of_one_panel_do_not_stand_in_one_place() -> None:
    robots = [Robot(namespace="a"), Robot(namespace="b", base="0 0.4 0 1.57"), Robot(namespace="c")]
    places = bases_of(robots)
    assert places["/b"].yaw_rad == 1.57
    assert len({base.y_m for base in places.values()}) == 3
    assert "b: 0 0.4 0 1.57" in panel(robots, Cell()).parameters["bases"]


def test_a_vendors_topics_are_recorded_although_they_are_not_the_robots(tmp_path: Path) -> None:
    assert recorder(PANDA).parameters["also"] == ""
    document = yaml.safe_load(Path(PANDA.robot).read_text())
    document["cameras"]["front"]["topic"] = "/camera/color/image_raw/compressed"
    robot = tmp_path / "robot.yaml"
    robot.write_text(yaml.safe_dump(document))
    also = recorder(replace(PANDA, robot=str(robot))).parameters["also"]
    assert also == "/camera/color/image_raw/compressed,/camera/color/camera_info"
