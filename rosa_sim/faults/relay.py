"""A relay between a robot's sensors and its runtime: passes messages on, late, not at all, or old ones again.

It republishes the topics that the runtime needs below `relayed/`, to which the runtime is remapped. Messages
are passed on as bytes with the stamps that they came with. The switch `control` says what is wrong:
`{"frozen": [camera, ...]}`, `{"late": [camera, ...], "seconds": 1.0}`, `{"stale": ["joint_states"]}`,
`{"repeats": [camera, ...]}`: the last picture again, with the stamp of the new one.
"""

from __future__ import annotations

import time
from collections import deque
from typing import Any

from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import CompressedImage, Image, JointState

from rosa_client.nodes.base.parameters import Parameter, declare
from rosa_client.nodes.base.qos import asked, offered
from rosa_client.nodes.base.shell import run_node
from rosa_contract.config.cameras import picture_topic
from rosa_contract.config.robot import RobotSpec, load_robot
from rosa_contract.errors import ConfigError
from rosa_sim.faults.switch import Switch

PARAMETERS = {
    "robot": Parameter("", "robot file, such as configs/robots/panda.yaml"),
    "control": Parameter("", "file that turns faults on and off"),
}
JOINT_STATES = "joint_states"
STAMP_ENDS = 12  # bytes: the CDR header (4), then seconds and nanoseconds of the message's stamp


def topics(robot: RobotSpec) -> dict[str, tuple[str, Any]]:
    """Sensor -> the topic that the runtime takes it from, and its type."""
    found: dict[str, tuple[str, Any]] = {JOINT_STATES: (JOINT_STATES, JointState)}
    for name, camera in robot.cameras.items():
        found[name] = picture_topic(name, camera), Image if camera.encoding == "rgb8" else CompressedImage
    return found


def remaps(robot: RobotSpec) -> dict[str, str]:
    """The remappings that make a runtime node listen to the relay."""
    return {topic: relayed(topic) for topic, _ in topics(robot).values()}


def relayed(topic: str) -> str:
    """Where the relay passes it on."""
    return f"relayed/{topic.lstrip('/')}"


class SensorFilter:
    """The messages of one sensor: decides which are passed on. The node sends them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._waiting: deque[tuple[float, bytes]] = deque()
        self._last = b""

    def take(self, now_s: float, message: bytes, state: dict[str, Any]) -> list[bytes]:
        """The messages that leave now that `message` has come."""
        if self.name in state.get("frozen", ()):
            return []
        if self.name in state.get("stale", ()):
            return [self._last] if self._last else []
        if self.name in state.get("repeats", ()):
            return [message[:STAMP_ENDS] + self._last[STAMP_ENDS:]] if self._last else []
        delay_s = float(state["seconds"]) if self.name in state.get("late", ()) else 0.0
        if not delay_s:
            self._waiting.clear()  # after the fault, only new messages are passed on
        self._waiting.append((now_s + delay_s, message))
        leaving = []
        while self._waiting and self._waiting[0][0] <= now_s:
            leaving.append(self._waiting.popleft()[1])
        if leaving:
            self._last = leaving[-1]
        return leaving


class Relay(Node):
    """One publisher and one subscription per sensor."""

    def __init__(self) -> None:
        super().__init__("relay")
        declare(self, PARAMETERS)
        self._switch = Switch(self.get_parameter("control").value)
        robot = load_robot(self.get_parameter("robot").value)
        for name, (topic, kind) in topics(robot).items():
            camera = robot.cameras.get(name)
            give, take = (
                (qos_profile_sensor_data,) * 2 if camera is None else (offered(camera), asked(camera))
            )
            out = self.create_publisher(kind, relayed(topic), give)
            self.create_subscription(kind, topic, self._passer(SensorFilter(name), out), take, raw=True)

    def close(self) -> None:
        """Nothing to release."""

    def _passer(self, sensor: SensorFilter, out: Any) -> Any:
        def pass_on(message: bytes) -> None:
            for leaving in sensor.take(time.monotonic(), message, self._switch.state()):
                out.publish(leaving)

        return pass_on


def main() -> None:
    run_node(Relay, (ConfigError, ValueError))


if __name__ == "__main__":
    main()
