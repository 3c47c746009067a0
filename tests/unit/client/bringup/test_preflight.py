"""What no node could work with is refused before anything starts, in one line that names the argument."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from rosa_client.bringup.graph import Cell, Robot, robots_of
from rosa_client.bringup.preflight import check_robots, check_server
from rosa_client.bringup.supervisor import BringupError

ROOT = Path(__file__).parents[4]
PANDA = ROOT / "configs" / "robots" / "panda.yaml"
GOOD = Robot(config=str(ROOT / "configs" / "pick_place.yaml"), robot=str(PANDA))


def robot_file(folder: Path, change: dict[str, Any]) -> str:
    page = yaml.safe_load(PANDA.read_text()) | change
    path = folder / "robot.yaml"
    path.write_text(yaml.safe_dump(page))
    return str(path)


def refusal(robot: Robot) -> str:
    with pytest.raises(BringupError) as caught:
        check_robots([robot])
    return str(caught.value)


def test_the_shipped_robot_is_fine() -> None:
    check_robots([GOOD, replace(GOOD, task="pick_and_place", base="0 0 0 1.57")])


def test_a_gateway_without_a_scheme_is_refused_with_what_was_expected() -> None:
    said = refusal(replace(GOOD, gateway="localhost:5570"))
    assert said == "gateway: expected an endpoint such as tcp://HOST:PORT, got 'localhost:5570'"


def test_a_wrong_factory_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("server_cluster: 3")
    assert refusal(replace(GOOD, config=str(tmp_path / "config.yaml"))).startswith("config: ")
    assert "cannot be read" in refusal(replace(GOOD, config=str(tmp_path / "none.yaml")))


def test_an_unknown_task_is_refused_with_the_known_ones() -> None:
    said = refusal(replace(GOOD, task="pik"))
    assert said.startswith("task: no task 'pik' in ") and said.endswith("known: pick_and_place")


def test_a_driver_that_nobody_has_is_refused(tmp_path: Path) -> None:
    said = refusal(replace(GOOD, robot=robot_file(tmp_path, {"camera_driver": "v4l"})))
    assert "camera_driver: no driver 'v4l' (did you mean 'v4l2'?)" in said


@pytest.mark.parametrize("name", ["front-left", "front.left", "1st"])
def test_a_camera_whose_name_is_no_part_of_a_topic_is_refused(name: str, tmp_path: Path) -> None:
    camera = {"width": 96, "height": 96}
    said = refusal(replace(GOOD, robot=robot_file(tmp_path, {"cameras": {name: camera}})))
    assert f"cameras.{name}: expected a name that is valid in a ROS topic, got {name}/camera_info" in said
    own = robot_file(tmp_path, {"cameras": {name: camera | {"topic": "/front/image_raw/compressed"}}})
    check_robots([replace(GOOD, robot=own)])


def test_a_place_that_is_no_place_is_refused() -> None:
    assert refusal(replace(GOOD, base="0 0")).startswith("base: ")


def test_two_robots_at_one_place_are_refused() -> None:
    """`base` with `fleet:=true` was that of each robot: in TF and on the panel they stood in each other."""
    pair = replace(GOOD, config=str(ROOT / "configs" / "two_robots.yaml"), base="1 0 0 0")
    with pytest.raises(BringupError) as caught:
        check_robots(robots_of(pair, Cell(fleet=True)))
    assert str(caught.value).startswith("base: panda0 and panda1 would both stand at 1 0 0 0")
    check_robots(robots_of(replace(pair, base=""), Cell(fleet=True)))


def test_a_camera_on_a_link_that_the_robot_does_not_have_is_refused(tmp_path: Path) -> None:
    cameras = yaml.safe_load(PANDA.read_text())["cameras"]
    cameras["wrist"]["pose"]["parent"] = "panda_hnd"
    said = refusal(replace(GOOD, robot=robot_file(tmp_path, {"cameras": cameras})))
    assert said.startswith(
        "robot: cameras.wrist.pose.parent: no link 'panda_hnd' in the robot description; it has"
    )
    check_robots([replace(GOOD, robot=robot_file(tmp_path, {"cameras": cameras}), description="external")])


def test_a_description_that_is_no_tree_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "robot.urdf"
    for text, says in (
        ("<robot", "not XML"),
        ('<robot><link name="a"/><link name="b"/></robot>', "one link"),
    ):
        path.write_text(text)
        said = refusal(replace(GOOD, description=str(path)))
        assert said.startswith("description: ") and says in said
    assert "No such file" in refusal(replace(GOOD, description=str(tmp_path / "none.urdf")))


@pytest.mark.parametrize(
    ("bind", "gateway", "fine"),
    [
        ("tcp://127.0.0.1:5570", "tcp://localhost:5570", True),
        ("tcp://0.0.0.0:5570", "tcp://gpu-box:5570", True),
        ("tcp://127.0.0.1:*", "tcp://127.0.0.1:5570", True),
        ("tcp://127.0.0.1:5571", "tcp://127.0.0.1:5570", False),
        ("tcp://127.0.0.1:5570", "tcp://127.0.0.1:15570", False),
    ],
)
def test_a_server_that_is_started_too_has_to_listen_where_the_robot_asks(
    tmp_path: Path, bind: str, gateway: str, fine: bool
) -> None:
    config = tmp_path / "factory.yaml"
    config.write_text(f"{Path(GOOD.config).read_text()}\ngateway: {{bind: '{bind}', metrics_port: 0}}\n")
    robots = [replace(GOOD, config=str(config), gateway=gateway)]
    check_server(robots, Cell(start_server=False))
    if fine:
        check_server(robots, Cell(start_server=True))
        return
    with pytest.raises(BringupError) as caught:
        check_server(robots, Cell(start_server=True))
    port = bind.rpartition(":")[2]
    assert str(caught.value).startswith("gateway: ")
    assert str(caught.value).endswith(f"expected port {port}, got {gateway}")
