"""Names in factory and robot files: a typing error is found, and what is proposed is what was meant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from rosa_contract.config.factory import parse_factory
from rosa_contract.config.robot import robot_from
from rosa_contract.errors import ConfigError, ConfigProblem
from rosa_server.serving.served import serving_problems

PANDA = Path(__file__).parents[4] / "configs" / "robots" / "panda.yaml"
FACTORY = """
server_cluster: {num_servers: 4}
robot_fleet: [{task: pick, num_robots: 1}]
pick:
  pipeline: {action_period_ms: 400}
  components:
    system1: {model: policy, slo_ms: 300}
    NAME: {model: MODEL, slo_ms: 300, freq_hz: 1}
models:
  policy: {backend: emulated}
  watcher: {backend: emulated}
"""


def refused(text: str) -> list[ConfigProblem]:
    with pytest.raises(ConfigError) as caught:
        parse_factory(text)
    return list(caught.value.problems)


def named(name: str, model: str = "watcher") -> str:
    return FACTORY.replace("NAME", name).replace("MODEL", model)


# -- components -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("moniter", "monitor"), ("mointor", "monitor"), ("monitors", "monitor"), ("Monitor", "monitor"),
     ("saftey", "safety"), ("safty", "safety"), ("sytem2", "system2"), ("system_2", "system2"),
     ("system2 ", "system2")],
)  # fmt: skip
def test_a_misspelt_component_is_refused_as_nobody_would_act_on_its_verdicts(typed: str, meant: str) -> None:
    (problem,) = refused(named(f'"{typed}"'))
    assert problem.path == f"pick.components.{typed}" and problem.cause == "unknown_name"
    assert f"did you mean {meant!r}?" in problem.words


@pytest.mark.parametrize(
    "name", ["monitor", "safety", "critic", "system3", "safety_left", "grasp_checker", "world_model"]
)
def test_another_name_is_a_component_of_your_own(name: str) -> None:
    assert name in parse_factory(named(name)).tasks["pick"].components


@pytest.mark.parametrize("typed", ["quality/left", "x" * 101, "two\\nlines"])
def test_a_component_that_no_message_or_schedule_could_name_is_refused(typed: str) -> None:
    (problem,) = refused(named(f'"{typed}"'))
    assert problem.path.startswith("pick.components.") and problem.cause == "invalid"
    assert "expected a name of at most 100 characters on one line, without '/'" in problem.words


def test_so_is_such_a_task_or_model_while_those_of_usual_hubs_have_a_slash() -> None:
    long = "x" * 101
    (problem,) = refused(named("monitor").replace("pick", long))
    assert problem.path == long and problem.cause == "invalid"
    (problem,) = refused(named("monitor", long).replace("watcher", long))
    assert problem.path == "pick.components.monitor.model" and problem.cause == "invalid"
    parse_factory(
        named("monitor", "rosa/watcher").replace("watcher:", "rosa/watcher:").replace("pick", "a/b")
    )


def test_a_second_monitor_beside_the_first_is_no_typing_error() -> None:
    text = named("monitor").replace(
        "models:", "    monitor2: {model: watcher, slo_ms: 300, freq_hz: 1}\nmodels:"
    )
    assert set(parse_factory(text).tasks["pick"].components) == {"system1", "monitor", "monitor2"}


# -- models -----------------------------------------------------------------------------------------------------------


def test_a_misspelt_model_is_named_where_it_stands_and_the_entry_is_proposed() -> None:
    (problem,) = refused(named("monitor", "watchr"))
    assert problem.path == "pick.components.monitor.model" and problem.cause == "unknown_name"
    assert "'watchr'" in problem.words and "did you mean 'watcher'?" in problem.words


def test_a_misspelt_model_beside_others_that_use_the_entry_is_found_by_serve() -> None:
    text = named("monitor").replace(
        "models:", "    critic: {model: watchr, slo_ms: 300, freq_hz: 1}\nmodels:"
    )
    (problem,) = serving_problems(parse_factory(text))
    assert problem.path == "pick.components.critic.model"
    assert "did you mean 'watcher'?" in problem.words


def test_a_model_without_an_entry_can_be_planned_for() -> None:
    text = named("monitor", "openvla/openvla-7b").replace("  watcher: {backend: emulated}\n", "")
    assert parse_factory(text).models.keys() == {"policy"}


def test_an_entry_that_nothing_uses_is_named() -> None:
    (problem,) = refused(named("monitor", "policy"))
    assert (problem.path, problem.words) == ("models.watcher", "is not used by any component")


# -- robots -----------------------------------------------------------------------------------------------------------


def robot(**changes: Any) -> list[ConfigProblem]:
    with pytest.raises(ConfigError) as caught:
        robot_from({**yaml.safe_load(PANDA.read_text()), **changes}, "<text>")
    return list(caught.value.problems)


def joints(*first: str) -> list[str]:
    known: list[str] = yaml.safe_load(PANDA.read_text())["joints"]
    return [*first, *known[len(first) :]]


@pytest.mark.parametrize(
    ("names", "path", "cause"),
    [
        (joints("panda_joint2"), "joints[1]", "duplicate_key"),
        (joints(""), "joints[0]", "out_of_range"),
        (joints(" "), "joints[0]", "out_of_range"),
        (joints("left/joint1"), "joints[0]", "out_of_range"),
        (joints("/joint1"), "joints[0]", "out_of_range"),
        (joints("joint 1"), "joints[0]", "out_of_range"),
    ],
)
def test_joint_names_are_distinct_and_are_names(names: list[str], path: str, cause: str) -> None:
    (problem,) = robot(joints=names)
    assert (problem.path, problem.cause) == (path, cause)


def test_a_finger_of_the_gripper_is_no_joint_of_the_arm() -> None:
    """The positions of joints of this name add up to the gripper's width."""
    (problem,) = robot(joints=joints("left_finger_joint"))
    assert (problem.path, problem.cause) == ("joints[0]", "conflict")
    hand = {**yaml.safe_load(PANDA.read_text()), "joints": joints("left_finger_joint")}
    assert robot_from({**hand, "gripper": {"kind": "none"}}, "<text>").joints[0] == "left_finger_joint"


@pytest.mark.parametrize("name", ["front/left", "front left", "../front", "a//b"])
def test_camera_names_are_names(name: str) -> None:
    page = yaml.safe_load(PANDA.read_text())
    cameras = {name: next(iter(page["cameras"].values()))}
    assert [(problem.path, problem.cause) for problem in robot(cameras=cameras)] == [
        (f"cameras.{name}", "out_of_range")
    ]


def test_a_camera_is_not_called_what_the_joint_states_are_called() -> None:
    """Its pictures would count as joint states, and nobody would notice that these are silent."""
    camera = next(iter(yaml.safe_load(PANDA.read_text())["cameras"].values()))
    assert [(problem.path, problem.cause) for problem in robot(cameras={"joint_state": camera})] == [
        ("cameras.joint_state", "conflict")
    ]


def test_a_robot_without_joints_is_refused() -> None:
    assert any(problem.path == "joints" for problem in robot(joints=[]))


@pytest.mark.parametrize(
    ("names", "cause"),
    [
        (["finger", "finger"], "duplicate_key"),
        (["", "finger"], "out_of_range"),
        (["panda_joint7"], "duplicate_key"),
    ],
)
def test_finger_joints_are_distinct_and_are_names(names: list[str], cause: str) -> None:
    """Their positions add up to the width: the same joint twice would be a width that is never there."""
    problems = robot(arm_driver="ros2_control", arm={"gripper": {"joints": names}})
    assert [problem.cause for problem in problems] == [cause]
    assert problems[0].path.startswith("arm.gripper.joints[")
