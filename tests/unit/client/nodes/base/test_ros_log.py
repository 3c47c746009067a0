"""What the product's libraries log reaches the ROS logger with its level and under the node's name."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from rclpy.impl.logging_severity import LoggingSeverity

from rosa_client.nodes.base import ros_log


@pytest.mark.parametrize(
    ("level", "severity"),
    [
        (logging.DEBUG, LoggingSeverity.DEBUG),
        (logging.INFO, LoggingSeverity.INFO),
        (logging.WARNING, LoggingSeverity.WARN),
        (logging.ERROR, LoggingSeverity.ERROR),
        (logging.CRITICAL, LoggingSeverity.FATAL),
    ],
)
def test_a_record_keeps_its_level_and_gets_the_nodes_name(
    monkeypatch: pytest.MonkeyPatch, level: int, severity: LoggingSeverity
) -> None:
    heard: list[Any] = []
    monkeypatch.setattr(
        ros_log,
        "get_logger",
        lambda name: SimpleNamespace(log=lambda text, said: heard.append((name, text, said))),
    )
    record = logging.LogRecord("rosa.link", level, __file__, 1, "no answer from %s", ("gpu-box",), None)
    ros_log.RosHandler("panda0.runtime_node").emit(record)
    assert heard == [("panda0.runtime_node.link", "no answer from gpu-box", severity)]
