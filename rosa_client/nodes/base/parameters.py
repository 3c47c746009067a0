"""Parameters of a node with description, range and read-only flag, so that a set that cannot take effect is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor
from rclpy.node import Node


@dataclass(frozen=True)
class Parameter:
    """A default and what it means. Its type is that of the default; `lowest` and `highest` belong to the range."""

    default: Any
    text: str
    lowest: float | None = None
    highest: float | None = None
    fixed: bool = True  # read once, at the start: ROS refuses to set it later

    def descriptor(self) -> ParameterDescriptor:
        """As ROS shows and enforces it."""
        made = ParameterDescriptor(description=self.text, read_only=self.fixed)
        if self.lowest is not None and self.highest is not None:
            if isinstance(self.default, int):
                made.integer_range = [IntegerRange(from_value=int(self.lowest), to_value=int(self.highest))]
            else:
                made.floating_point_range = [
                    FloatingPointRange(from_value=float(self.lowest), to_value=float(self.highest))
                ]
        return made


def declare(node: Node, parameters: Mapping[str, Parameter]) -> None:
    """Declare `parameters`. Raises rclpy's `InvalidParameterValueException` for a value outside its range."""
    for name, one in parameters.items():
        node.declare_parameter(name, one.default, one.descriptor())
