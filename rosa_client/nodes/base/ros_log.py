"""What libraries say with Python's `logging`, through the ROS logger: to the terminal, the log file and `/rosout`."""

from __future__ import annotations

import logging

from rclpy.impl.logging_severity import LoggingSeverity
from rclpy.logging import get_logger

LIBRARY = "rosa"  # every logger of the product begins with it
LEVELS = (
    (logging.CRITICAL, LoggingSeverity.FATAL),
    (logging.ERROR, LoggingSeverity.ERROR),
    (logging.WARNING, LoggingSeverity.WARN),
    (logging.INFO, LoggingSeverity.INFO),
)


class RosHandler(logging.Handler):
    """Passes records on to the ROS logger of a node, under their own name below it."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def emit(self, record: logging.LogRecord) -> None:
        severity = next((ros for level, ros in LEVELS if record.levelno >= level), LoggingSeverity.DEBUG)
        child = record.name.removeprefix(f"{LIBRARY}.")
        get_logger(f"{self._name}.{child}").log(self.format(record), severity)


def log_to_ros(name: str) -> None:
    """From now on, `logging` of the product goes to ROS under the logger `name`."""
    logger = logging.getLogger(LIBRARY)
    logger.handlers = [RosHandler(name)]
    logger.setLevel(logging.INFO)
    logger.propagate = False
