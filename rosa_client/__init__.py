"""ROSA on the robot: pure decisions in `runtime`, ROS 2 shells around them, and `robot` for plain Python."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rosa_client.robot.actions import ActionQueue as ActionQueue
    from rosa_client.robot.aio import AsyncRobot as AsyncRobot
    from rosa_client.robot.answer import Answer as Answer
    from rosa_client.robot.blocking import Robot as Robot
    from rosa_client.robot.errors import DeadlineMissed as DeadlineMissed
    from rosa_client.robot.errors import RobotError as RobotError
    from rosa_client.robot.group import GroupQueue as GroupQueue
    from rosa_client.robot.group import RobotGroup as RobotGroup
    from rosa_client.robot.gym_env import RosaEnv as RosaEnv

# Loaded when they are asked for: a program that needs one pure module does not load sockets and OpenCV.
_WHERE = {
    "ActionQueue": "actions",
    "Answer": "answer",
    "AsyncRobot": "aio",
    "DeadlineMissed": "errors",
    "GroupQueue": "group",
    "Robot": "blocking",
    "RobotError": "errors",
    "RobotGroup": "group",
    "RosaEnv": "gym_env",
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"rosa_client.robot.{_WHERE[name]}"), name)
