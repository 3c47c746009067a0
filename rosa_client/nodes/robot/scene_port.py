"""The simulated cell of an arm driver that has one, over ROS: its state for the cameras, a reset, and the outcome.

An arm driver of a real robot has no scene; then the arm node offers none of this.
"""

from __future__ import annotations

from collections.abc import Callable

from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from rosa_interfaces.msg import WorldState
from rosa_interfaces.srv import ResetScene
from std_srvs.srv import Trigger

from rosa_client.drivers.arms import Scene
from rosa_client.nodes.base.rate import Rate
from rosa_client.nodes.robot.emergency_stop import InLoop


class ScenePort:
    """Publishes `world_state`; serves `~/reset_scene` and `~/outcome` between two control periods."""

    def __init__(
        self, node: Node, scene: Scene, rate: Rate, in_loop: InLoop, after_reset: Callable[[], None]
    ) -> None:
        """`after_reset`: called between the same two periods, as the arm now stands elsewhere."""
        self._node = node
        self._scene = scene
        self._rate = rate
        self._in_loop = in_loop
        self._after_reset = after_reset
        self._states = node.create_publisher(WorldState, "world_state", qos_profile_sensor_data)
        node.create_service(ResetScene, "~/reset_scene", self._on_reset)
        node.create_service(Trigger, "~/outcome", self._on_outcome)

    def publish(self, now_s: float) -> None:
        """Called every control period, in the control thread."""
        if self._rate.due(now_s):
            state = WorldState(seed=self._scene.seed, qpos=self._scene.qpos.tolist())
            state.header.stamp = self._node.get_clock().now().to_msg()
            self._states.publish(state)

    def _on_reset(self, request: ResetScene.Request, response: ResetScene.Response) -> ResetScene.Response:
        def reset() -> None:
            self._scene.reset(request.seed)
            self._after_reset()

        response.reason = self._in_loop(reset)[1]
        response.ok = not response.reason
        return response

    def _on_outcome(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        outcome, problem = self._in_loop(self._scene.outcome)
        response.success, response.message = not problem, problem or outcome
        return response
