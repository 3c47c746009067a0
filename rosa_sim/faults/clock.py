"""ROS time that jumps: publishes /clock as this machine's clock plus an offset. The machine's own clock is not touched.

`{"ahead_s": 30.0}` in the file `control` puts ROS time that far ahead of true time, a negative number behind it.
"""

from __future__ import annotations

import time

from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rosgraph_msgs.msg import Clock as ClockMessage

from rosa_client.nodes.base.parameters import Parameter, declare
from rosa_client.nodes.base.shell import run_node
from rosa_client.ros.clock import steady_timer
from rosa_sim.faults.switch import Switch

PARAMETERS = {"control": Parameter("", "file that makes the clock jump")}
RATE_HZ = 100.0


class JumpingClock(Node):
    """The only publisher of /clock on its ROS domain; it runs at the rate of a steady clock."""

    def __init__(self) -> None:
        super().__init__("jumping_clock")
        declare(self, PARAMETERS)
        self._switch = Switch(self.get_parameter("control").value)
        newest = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
        self._clock_out = self.create_publisher(ClockMessage, "/clock", newest)
        steady_timer(self, 1 / RATE_HZ, self._tick)

    def close(self) -> None:
        """Nothing to release."""

    def _tick(self) -> None:
        ahead_ns = round(float(self._switch.state().get("ahead_s", 0.0)) * 1e9)
        message = ClockMessage()
        message.clock.sec, message.clock.nanosec = divmod(time.time_ns() + ahead_ns, 1_000_000_000)
        self._clock_out.publish(message)


def main() -> None:
    run_node(JumpingClock, (ValueError,))


if __name__ == "__main__":
    main()
