"""What the end of each process means: to nobody, to one robot, or to all."""

from __future__ import annotations

from pathlib import Path

import pytest

from rosa_client.bringup.graph import Cell, Robot, panel
from rosa_client.bringup.roles import Roles, roles_of

PANDA = str(Path(__file__).parents[4] / "configs" / "robots" / "panda.yaml")
ROBOTS = [
    Robot(robot=PANDA, namespace="left", record="left.mcap"),
    Robot(robot=PANDA, namespace="right"),
]
KILLED = -9


@pytest.fixture
def fleet() -> Roles:
    return roles_of(ROBOTS, panel=panel(ROBOTS, Cell()))


@pytest.mark.parametrize("node", ["arm_node", "camera_node", "runtime_node"])
def test_a_robot_that_misses_a_node_is_lost_and_the_other_is_not(fleet: Roles, node: str) -> None:
    ended = {f"left/{node}": KILLED}
    assert fleet.lost(ended) == ["left"]
    assert fleet.all_lost(ended) == ""
    told = fleet.explain(f"left/{node}", ended)
    assert told.startswith(f"left/{node} ended by SIGKILL: left is lost.")
    assert told.endswith("right goes on")


@pytest.mark.parametrize("spare", ["left/recorder_node", "operator_node"])
def test_nobody_needs_a_recorder_or_the_panel(fleet: Roles, spare: str) -> None:
    ended = {spare: 1}
    assert fleet.lost(ended) == []
    assert fleet.all_lost(ended) == ""
    assert fleet.explain(spare, ended).startswith(f"{spare} ended with status 1: ")


def test_who_loses_its_recording_is_told_what_is_left_of_it(fleet: Roles) -> None:
    assert "left.mcap has what came before" in fleet.explain("left/recorder_node", {"left/recorder_node": 1})


def test_all_is_over_when_the_last_robot_is_lost(fleet: Roles) -> None:
    ended = {"left/camera_node": KILLED, "left/recorder_node": 0, "right/arm_node": 3}
    assert fleet.lost(ended) == ["left", "right"]
    assert fleet.all_lost(ended) == "left/camera_node ended by SIGKILL, right/arm_node ended with status 3"
    assert fleet.explain("right/arm_node", ended).endswith("no robot can work any more; everything ends")


def test_who_gave_a_reason_is_quoted_and_who_was_killed_gave_none() -> None:
    alone = roles_of([Robot(robot=PANDA, namespace="left")])
    said = {"left/arm_node": "no arm at 10.0.0.2"}.get
    assert alone.all_lost({"left/arm_node": 2}, lambda name: said(name, "")) == (
        "left/arm_node ended with status 2: no arm at 10.0.0.2"
    )
    assert (
        alone.all_lost({"left/arm_node": KILLED}, lambda name: said(name, ""))
        == "left/arm_node ended by SIGKILL"
    )


def test_one_robot_alone_is_the_last() -> None:
    alone = roles_of([Robot(robot=PANDA, namespace="left")])
    assert alone.all_lost({"left/camera_node": KILLED}) == "left/camera_node ended by SIGKILL"


def test_every_robot_needs_what_is_nobodys_own(fleet: Roles) -> None:
    ended = {"left/camera_node": KILLED, "server": 1}
    assert fleet.all_lost(ended) == "server ended with status 1"
    assert fleet.explain("server", ended).endswith("everything ends")
