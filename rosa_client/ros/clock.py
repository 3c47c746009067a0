"""ROS time is for stamps; what has to happen again and again does so on steady time.

A timer of ROS time stands still for as long as the wall clock was set back, and for ever when nobody publishes
`/clock`: an arm or a camera would seem to be gone. So this is the only place that makes a timer.
"""

from __future__ import annotations

from collections.abc import Callable

from builtin_interfaces.msg import Time
from rclpy.clock import Clock
from rclpy.clock_type import ClockType
from rclpy.node import Node
from rclpy.timer import Timer


def steady_timer(node: Node, period_s: float, call: Callable[[], None]) -> Timer:
    """Call it every `period_s`, whatever happens to the wall clock and to ROS time."""
    return node.create_timer(period_s, call, clock=Clock(clock_type=ClockType.STEADY_TIME))


def stamp_before(clock: Clock, age_s: float) -> Time:
    """When something was taken that is `age_s` old. Never before 0, where ROS time stands until `/clock` is heard."""
    ns = max(0, clock.now().nanoseconds - round(age_s * 1e9))
    return Time(sec=ns // 1_000_000_000, nanosec=ns % 1_000_000_000)
