"""A robot file that extends another one says only what differs; what is wrong is said with the file that is wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from rosa_contract.config.robot import RobotSpec, load_robot, robot_from
from rosa_contract.errors import ConfigError

PANDA = Path(__file__).parents[4] / "configs" / "robots" / "panda.yaml"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "panda.yaml").write_text(PANDA.read_text())
    return tmp_path


def written(folder: Path, name: str = "mine.yaml", **values: Any) -> Path:
    path = folder / name
    path.write_text(yaml.safe_dump({"extends": "panda.yaml", **values}))
    return path


def problems(path: Path) -> list[tuple[str, str]]:
    with pytest.raises(ConfigError) as caught:
        load_robot(path)
    return [(one.path, one.cause) for one in caught.value.problems]


def test_a_file_that_says_nothing_else_is_the_other_one(folder: Path) -> None:
    assert replace(load_robot(written(folder)), extends="") == load_robot(PANDA)


def test_mappings_are_merged_and_other_values_replaced(folder: Path) -> None:
    mine = load_robot(
        written(folder, home_rad=[0.1] * 3 + [-2.0] + [0.1] * 3, limits={"jerk_rad_s3": [9.0] * 7})
    )
    panda = load_robot(PANDA)
    assert mine.home_rad == (0.1, 0.1, 0.1, -2.0, 0.1, 0.1, 0.1)
    assert mine.limits == replace(panda.limits, jerk_rad_s3=(9.0,) * 7)
    assert mine.cameras == panda.cameras


def test_null_takes_a_value_away(folder: Path) -> None:
    mine = load_robot(written(folder, cameras={"wrist": None}, drop_rad=None))
    assert list(mine.cameras) == ["front"] and mine.drop_rad is None


def test_an_orientation_replaces_one_that_is_written_otherwise(folder: Path) -> None:
    turned = load_robot(written(folder, cameras={"front": {"pose": {"rpy_rad": [0.0, 0.0, 1.0]}}}))
    pose = turned.cameras["front"].pose
    assert pose is not None and pose.rpy_rad == (0.0, 0.0, 1.0) and pose.quaternion_xyzw is None
    assert pose.parent == "panda_link0"
    both = {"rpy_rad": [0.0, 0.0, 1.0], "quaternion_xyzw": [0.0, 0.0, 0.0, 1.0]}
    assert problems(written(folder, cameras={"front": {"pose": both}})), "the same file says both"


def test_the_settings_of_another_driver_are_not_taken_over(folder: Path) -> None:
    first = {"arm_driver": "ros2_control", "arm": {"controller": "one", "gripper": {"kind": "none"}}}
    written(folder, "first.yaml", **first)
    same = load_robot(written(folder, extends="first.yaml", arm={"controller": "two"}))
    assert same.arm["controller"] == "two" and same.arm["gripper"]["kind"] == "none"
    other = load_robot(written(folder, extends="first.yaml", arm_driver="mujoco"))
    assert other.arm == {} and other.gripper.exists


def test_a_file_may_extend_one_that_extends(folder: Path) -> None:
    written(folder, "between.yaml", velocity_scale=0.5, control_rate_hz=200)
    (folder / "below").mkdir()
    mine: RobotSpec = load_robot(written(folder / "below", extends="../between.yaml", velocity_scale=0.25))
    assert (mine.velocity_scale, mine.control_rate_hz, mine.name) == (0.25, 200.0, "panda")


def test_a_file_that_is_not_there_is_named(folder: Path) -> None:
    path = written(folder, extends="nobodys.yaml")
    assert problems(path) == [("extends", "unreadable")]
    with pytest.raises(
        ConfigError,
        match=r"'nobodys\.yaml' cannot be read: .*folder of this one, or one of .*rosa:panda\.yaml",
    ):
        load_robot(path)


def test_so_is_one_that_is_a_link_to_itself(folder: Path) -> None:
    (folder / "link.yaml").symlink_to("link.yaml")
    assert problems(written(folder, extends="link.yaml")) == [("extends", "unreadable")]
    assert problems(folder / "link.yaml") == [("", "unreadable")]


def test_a_shipped_file_is_found_from_any_folder(tmp_path: Path) -> None:
    mine = load_robot(written(tmp_path, extends="rosa:panda_ros2_control.yaml", velocity_scale=0.1))
    shipped = load_robot(PANDA.with_name("panda_ros2_control.yaml"))
    assert mine == replace(shipped, extends="rosa:panda_ros2_control.yaml", velocity_scale=0.1)


def test_a_circle_is_named(folder: Path) -> None:
    written(folder, "a.yaml", extends="b.yaml")
    written(folder, "b.yaml", extends="a.yaml")
    with pytest.raises(ConfigError, match=r"extends: is circular: a\.yaml -> b\.yaml -> a\.yaml"):
        load_robot(folder / "a.yaml")
    assert problems(written(folder, extends="mine.yaml")) == [("extends", "conflict")]


def test_only_so_many_files_lie_above_each_other(folder: Path) -> None:
    for number in range(20):
        written(folder, f"{number}.yaml", extends=f"{number + 1}.yaml")
    assert problems(folder / "0.yaml") == [("extends", "too_large")]


@pytest.mark.parametrize("name", [None, 3, "", ["panda.yaml"], "a\nb"])
def test_what_it_extends_is_the_name_of_a_file(name: object, folder: Path) -> None:
    assert problems(written(folder, extends=name)) == [("extends", "wrong_type")]


@pytest.mark.parametrize("content", ["just text\n", "- a\n", "server_cluster: {nodes: []}\n"])
def test_what_it_extends_is_a_robot_file(content: str, folder: Path) -> None:
    (folder / "other.yaml").write_text(content)
    with pytest.raises(ConfigError) as caught:
        load_robot(written(folder, extends="other.yaml"))
    assert caught.value.source.endswith("other.yaml")
    assert [one.cause for one in caught.value.problems] == ["wrong_type"]


def test_an_unknown_key_is_found_where_it_stands(folder: Path) -> None:
    (folder / "panda.yaml").write_text(PANDA.read_text() + "grippper: {}\n")
    with pytest.raises(ConfigError) as caught:
        load_robot(written(folder, velocity_scael=0.5))
    said = {one.path: str(one) for one in caught.value.problems}
    assert {one.cause for one in caught.value.problems} == {"unknown_key"}
    assert said["grippper"].endswith(f"(set in {folder / 'panda.yaml'})")
    assert "said in" not in said["velocity_scael"] and "velocity_scale" in said["velocity_scael"]


def test_a_value_of_the_other_file_is_wrong_there(folder: Path) -> None:
    text = PANDA.read_text().replace("width: 96", "width: wide", 1)
    (folder / "panda.yaml").write_text(text)
    with pytest.raises(ConfigError, match=r"cameras\.front\.width: .*set in .*panda\.yaml"):
        load_robot(written(folder, velocity_scale=0.5))
    assert load_robot(written(folder, cameras={"front": {"width": 640}})).cameras["front"].width == 640


def test_values_without_a_file_extend_nothing() -> None:
    with pytest.raises(ConfigError) as caught:
        robot_from({"extends": str(PANDA)}, "<text>")
    assert [(one.path, one.cause) for one in caught.value.problems] == [("extends", "conflict")]
