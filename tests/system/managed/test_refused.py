"""What the runtime node offers when it cannot make its link to the server."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import rclpy
import yaml
from rclpy.action import ActionClient, get_action_server_names_and_types_by_node
from rclpy.executors import SingleThreadedExecutor
from rclpy.lifecycle import TransitionCallbackReturn
from rclpy.node import Node
from rosa_interfaces.action import RunTask
from rosa_interfaces.srv import OperatorDecision

from rosa_client.nodes.base.environment import prepare_environment
from rosa_client.nodes.robot import runtime_node
from rosa_client.nodes.robot.runtime_node import RuntimeNode
from rosa_server.serving.edge.access import make_keys
from tests.system.nodes.processes import PANDA, ROOT

PATIENCE_S = 20.0
SUCCESS, ERROR = TransitionCallbackReturn.SUCCESS, TransitionCallbackReturn.ERROR
CONFIG = ROOT / "configs" / "pick_place.yaml"
DECISION = "~/operator_decision"


class Links:
    """Stands for `GatewayLink`: none can be made while `broken`."""

    def __init__(self) -> None:
        self.broken = False
        self._really = runtime_node.GatewayLink

    def __call__(self, *given: Any) -> Any:
        if self.broken:
            raise OSError("too many open files")
        return self._really(*given)


class Robot:
    """A runtime node in this process, with two tasks, and a client of it."""

    def __init__(self, folder: Path) -> None:
        document = yaml.safe_load(CONFIG.read_text())
        config = folder / "two_tasks.yaml"
        config.write_text(yaml.safe_dump({**document, "other": document["pick_and_place"]}))
        make_keys(folder / "keys", "robot")
        given = (f"config:={config}", PANDA, "gateway:=tcp://127.0.0.1:1", f"keys:={folder / 'keys'}")
        words = ["-r", "__ns:=/robot", *(word for one in given for word in ("-p", one))]
        rclpy.init(args=["test", "--ros-args", *words, "-p", "task:=pick_and_place"])
        self.node = RuntimeNode()
        self.other = Node("somebody", use_global_arguments=False)
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(self.node)
        self._executor.add_node(self.other)
        self._client = ActionClient(self.other, RunTask, "/robot/run_task")

    def offered(self) -> int:
        """How many services for decisions there are."""
        return sum(one.srv_name == DECISION for one in self.node.services)

    def until(self, condition: Callable[[], Any]) -> None:
        end_s = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < end_s, "the condition did not come true"
            self._executor.spin_once(timeout_sec=0.05)

    def answer(self, future: Any) -> Any:
        self.until(future.done)
        return future.result()

    def give(self, task: str) -> Any:
        """The handle of an accepted task."""
        self.until(self._client.server_is_ready)
        handle = self.answer(self._client.send_goal_async(RunTask.Goal(task=task)))
        assert handle.accepted
        return handle

    def cancelled(self, task: str) -> str:
        """The outcome of a task that is begun and cancelled."""
        handle = self.give(task)
        result = handle.get_result_async()
        self.answer(handle.cancel_goal_async())
        return str(self.answer(result).result.outcome)

    def decide(self) -> str:
        """Why a decision is refused."""
        client = self.other.create_client(OperatorDecision, "/robot/runtime_node/operator_decision")
        self.until(client.service_is_ready)
        request = OperatorDecision.Request(alert_id=1, choice="resume", decided_by="ada", why="a test")
        return str(self.answer(client.call_async(request)).reason)

    def close(self) -> None:
        self.node.close()
        self._executor.shutdown()
        self.other.destroy_node()
        self.node.destroy_node()
        rclpy.shutdown()


@pytest.fixture
def links(monkeypatch: pytest.MonkeyPatch) -> Links:
    made = Links()
    monkeypatch.setattr(runtime_node, "GatewayLink", made)
    return made


@pytest.fixture
def robot(tmp_path: Path, links: Links) -> Iterator[Robot]:
    prepare_environment()
    made = Robot(tmp_path)
    yield made
    made.close()


def test_a_runtime_that_cannot_be_activated_offers_nothing(robot: Robot, links: Links) -> None:
    assert robot.node.trigger_configure() == SUCCESS
    links.broken = True
    assert robot.node.trigger_activate() == ERROR
    assert robot.offered() == 0
    assert not get_action_server_names_and_types_by_node(robot.node, "runtime_node", "/robot")
    links.broken = False
    assert robot.node.trigger_configure() == SUCCESS and robot.node.trigger_activate() == SUCCESS
    assert robot.offered() == 1
    assert robot.decide().startswith("nothing to decide")


def test_keys_are_read_when_it_is_configured(robot: Robot, tmp_path: Path) -> None:
    assert robot.node.trigger_configure() == SUCCESS
    (tmp_path / "keys" / "robots" / "robot.key_secret").unlink()
    assert robot.node.trigger_activate() == SUCCESS
    assert robot.cancelled("other") == "canceled"


def test_a_change_of_task_that_fails_says_why_and_the_next_task_begins(robot: Robot, links: Links) -> None:
    assert robot.node.trigger_configure() == SUCCESS and robot.node.trigger_activate() == SUCCESS
    links.broken = True
    result = robot.answer(robot.give("other").get_result_async()).result
    assert (result.outcome, result.reason) == (
        "failed",
        "the task 'other' cannot begin: too many open files",
    )
    assert robot.decide() == "no task could begin, so there is nothing to decide"
    links.broken = False
    assert robot.cancelled("pick_and_place") == "canceled"
    assert robot.node.trigger_deactivate() == SUCCESS
    assert robot.offered() == 0


def test_a_runtime_without_a_core_is_deactivated_and_activated_as_any_other(
    robot: Robot, links: Links
) -> None:
    assert robot.node.trigger_configure() == SUCCESS and robot.node.trigger_activate() == SUCCESS
    links.broken = True
    robot.answer(robot.give("other").get_result_async())
    assert robot.node.trigger_deactivate() == SUCCESS
    assert robot.offered() == 0
    links.broken = False
    assert robot.node.trigger_activate() == SUCCESS
    assert robot.offered() == 1
    robot.give("pick_and_place")
