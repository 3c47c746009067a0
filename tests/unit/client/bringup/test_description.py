"""The robot's description: ours, franka_description's where its links have our names, or nobody's."""

from __future__ import annotations

import itertools
import os
from dataclasses import replace
from pathlib import Path

import pytest

from rosa_client.bringup import description
from rosa_client.bringup.description import description_nodes, description_note, description_of
from rosa_client.bringup.graph import Robot
from rosa_client.frames import links_of
from rosa_contract.config.robot import load_robot

ROOT = Path(__file__).parents[4]
PANDA = Robot(robot=str(ROOT / "configs" / "robots" / "panda.yaml"), namespace="left")
SPEC = load_robot(PANDA.robot)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Path]:
    """Packages of a ROS 2 installation, by name; none at first."""
    packages: dict[str, Path] = {}
    monkeypatch.setattr(description, "prefix", packages.get)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    return packages


def franka_description(folder: Path, links: str) -> Path:
    """A package whose xacro prints `links` joined in a chain, as far as this module looks at it."""
    file = folder / "share" / "franka_description" / "robots" / "panda" / "panda.urdf.xacro"
    file.parent.mkdir(parents=True)
    file.touch()
    names = links.split()
    joints = "".join(
        f'<joint><parent link="{a}"/><child link="{b}"/></joint>' for a, b in itertools.pairwise(names)
    )
    text = f"<robot>{''.join(f'<link name=%{name}%/>' for name in names)}{joints}</robot>".replace("%", '"')
    xacro = folder / "bin" / "xacro"
    xacro.parent.mkdir()
    xacro.write_text(f"#!/bin/sh\necho '{text}'\n")
    xacro.chmod(0o755)
    return folder


def test_without_robot_state_publisher_one_line_says_what_is_missing(installed: dict[str, Path]) -> None:
    assert description_nodes(PANDA) == []
    assert description_note(PANDA).startswith("left: robot_state_publisher is not installed")


def test_the_publisher_gets_our_description_and_the_robots_prefix(installed: dict[str, Path]) -> None:
    installed["robot_state_publisher"] = Path("/opt/ros")
    [node] = description_nodes(PANDA)
    assert (node.package, node.namespace) == ("robot_state_publisher", "/left")
    assert node.parameters["frame_prefix"] == "left/"
    assert "panda_hand" in links_of(node.parameters["robot_description"])
    assert description_note(PANDA) == ""


def test_another_launch_may_publish_the_robot(installed: dict[str, Path]) -> None:
    installed["robot_state_publisher"] = Path("/opt/ros")
    theirs = replace(PANDA, description="external")
    assert description_nodes(theirs) == []
    assert description_note(theirs) == ""


def test_frankas_own_description_is_taken_where_its_links_have_our_names(
    installed: dict[str, Path], tmp_path: Path
) -> None:
    installed["franka_description"] = franka_description(tmp_path, "panda_link0 panda_hand")
    assert links_of(description_of(PANDA, SPEC)) == ["panda_link0", "panda_hand"]


def test_frankas_description_of_another_robot_is_not(installed: dict[str, Path], tmp_path: Path) -> None:
    installed["franka_description"] = franka_description(tmp_path, "fer_link0 fer_hand")
    assert "panda_finger1" in links_of(description_of(PANDA, SPEC)), "ROSA's own"


def test_a_robot_of_which_nobody_has_a_description_says_so(
    installed: dict[str, Path], tmp_path: Path
) -> None:
    installed["robot_state_publisher"] = Path("/opt/ros")
    (tmp_path / "robot.yaml").write_text(Path(PANDA.robot).read_text().replace("name: panda", "name: other"))
    other = replace(PANDA, robot=str(tmp_path / "robot.yaml"))
    assert description_nodes(other) == []
    assert "no robot description: hardware/other/other.urdf does not exist" in description_note(other)
