"""The ROS side of the `ros2_control` driver, as far as it needs no controllers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rclpy.action import ActionClient
from rclpy.node import Node

from rosa_client.drivers import DriverError
from rosa_client.drivers.arms import ros2_control
from rosa_contract.config.robot import load_robot

ROOT = Path(__file__).parents[4]
ACTION = "an action"
ARM = {
    "start_timeout_s": 0.1,
    "joint_states": "arm/joint_states",
    "robot_state": "arm/state",
    "error_recovery": "arm/error_recovery",
    "gripper": {"kind": "franka", "action": "hand", "joint_states": "hand/joint_states"},
}


def test_what_is_asked_is_made_before_what_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who subscribes, to answers too, is announced in the order in which it was made. So controllers that are heard
    know who asks, and no answer of theirs is dropped: a gripper would hold its part, and count as broken."""
    made: list[str] = []

    class Noting(Node):
        def create_subscription(self, kind: Any, topic: str, *given: Any, **named: Any) -> Any:
            made.append(topic)
            return super().create_subscription(kind, topic, *given, **named)

        def create_client(self, kind: Any, name: str, *given: Any, **named: Any) -> Any:
            made.append(name.rpartition("/")[2])
            return super().create_client(kind, name, *given, **named)

        def add_waitable(self, waitable: Any) -> None:
            if isinstance(waitable, ActionClient):
                made.append(ACTION)
            super().add_waitable(waitable)

    monkeypatch.setattr(ros2_control, "Node", Noting)
    panda = load_robot(ROOT / "configs" / "robots" / "panda_ros2_control.yaml")
    driver = ros2_control.Ros2ControlArm(replace(panda, arm=ARM), 0)
    with pytest.raises(DriverError, match="no joint states"):
        driver.connect("/panda0")
    services = ["switch_controller", "set_hardware_component_state", "list_controllers"]
    assert [one for one in made if one in services][-1] == "list_controllers", (
        "its answer says that all are known"
    )
    hears = ["/controller_manager/activity", "/arm/state", "/arm/joint_states", "/hand/joint_states"]
    assert made.count(ACTION) == 3 and set(made) == {ACTION, *services, *hears}
    assert set(made[6:]) == set(hears), made
