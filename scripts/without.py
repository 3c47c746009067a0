"""A plugin of pytest for `make test-pythons`: what needs ROS, PyTorch or the simulated cell is skipped, and counted.

Only a module of the list below that is not there is a reason; every other error stays one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Generator
from typing import Any

import pytest

ROS = {
    *(
        "action_msgs",
        "ament_index_python",
        "bond",
        "builtin_interfaces",
        "control_msgs",
        "controller_manager_msgs",
    ),
    *("diagnostic_msgs", "geometry_msgs", "lifecycle_msgs", "rcl_interfaces", "rclpy", "rosa_interfaces"),
    *(
        "rosgraph_msgs",
        "sensor_msgs",
        "std_msgs",
        "std_srvs",
        "tf2_msgs",
        "trajectory_msgs",
        "visualization_msgs",
    ),
}
MODELS = {"jax", "safetensors", "torch", "transformers"}
CELL = {"dm_robotics", "fast_simplification", "mujoco", "trimesh"}
LEFT_OUT = ROS | MODELS | CELL
MISSING = re.compile(r"No module named '(\w+)")
_counted: Counter[str] = Counter()


def _lacks(error: str) -> str:
    """Which package of the list is not there; empty for any other error."""
    found = MISSING.findall(error)
    name = str(found[-1]) if found else ""
    return name if name in LEFT_OUT else ""


def _skip(report: Any, name: str, path: str) -> None:
    report.outcome, report.longrepr = "skipped", (path, 0, f"Skipped: {name} is not in this environment")
    _counted[name] += 1


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, Any]:
    report = yield
    if report.failed and (name := _lacks(str(report.longrepr))):
        _skip(report, name, str(collector.path))
        report.result = []
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    report = yield
    error = None if call.excinfo is None else call.excinfo.value
    if report.failed and isinstance(error, ModuleNotFoundError) and (name := _lacks(str(error))):
        _skip(report, name, str(item.path))
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    told = ", ".join(f"{name} {count}" for name, count in sorted(_counted.items()))
    terminalreporter.write_line(f"left out, files or tests by the package that is not here: {told or 'none'}")
