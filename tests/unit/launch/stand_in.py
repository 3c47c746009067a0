"""What the launch files need of `launch` and `launch_ros`, which no wheel has: every action is kept as it was made."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest


class Action:
    """Any action or event handler of launch, with its arguments."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.args, self.kwargs = args, kwargs


def kind(name: str) -> type[Action]:
    return type(name, (Action,), {})


class LaunchConfiguration:
    """The value of an argument."""

    def __init__(self, name: str) -> None:
        self.name = name

    def perform(self, context: Any) -> str:
        return str(context.launch_configurations[self.name])


NAMES = {
    "launch": ("LaunchContext", "LaunchDescription", "LaunchDescriptionEntity"),
    "launch.actions": (
        "DeclareLaunchArgument",
        "ExecuteProcess",
        "IncludeLaunchDescription",
        "OpaqueFunction",
        "RegisterEventHandler",
        "SetEnvironmentVariable",
        "TimerAction",
    ),
    "launch.event_handlers": ("OnProcessExit", "OnProcessIO"),
    "launch.events": (),
    "launch.events.process": ("ProcessExited", "ProcessIO"),
    "launch.launch_description_sources": ("PythonLaunchDescriptionSource",),
    "launch.logging": (),
    "launch.substitutions": (),
    "launch_ros": (),
    "launch_ros.actions": ("Node",),
    "launch_ros.parameter_descriptions": (),
}


class ParameterValue(Action):
    """A parameter with its type."""


def install(monkeypatch: pytest.MonkeyPatch, said: Callable[[str], None], logs: Path) -> None:
    """Put the stand-ins where `import` finds them; `said` hears what is logged, `logs` is the launch's log folder."""
    for module, names in NAMES.items():
        made = ModuleType(module)
        for name in names:
            setattr(made, name, kind(name))
        monkeypatch.setitem(sys.modules, module, made)
    log = SimpleNamespace(info=said, warning=said, error=said)
    monkeypatch.setattr(sys.modules["launch.logging"], "get_logger", lambda name: log, raising=False)
    config = SimpleNamespace(log_dir=str(logs))
    monkeypatch.setattr(sys.modules["launch.logging"], "launch_config", config, raising=False)
    monkeypatch.setattr(
        sys.modules["launch.substitutions"], "LaunchConfiguration", LaunchConfiguration, raising=False
    )
    monkeypatch.setattr(
        sys.modules["launch_ros.parameter_descriptions"], "ParameterValue", ParameterValue, raising=False
    )
