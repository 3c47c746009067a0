"""The nodes of a robot behind the simulated controller: its own, and the cell that stands in for hardware."""

from __future__ import annotations

from dataclasses import replace

from rosa_client.bringup.graph import NodeSpec, Robot, robot_graph

CELL = "simulated_cell"


def behind_ros2_control(robot: Robot) -> list[NodeSpec]:
    """The simulated cell, then the robot's own nodes; its cameras draw the cell, whatever the robot file says."""
    nodes = robot_graph(robot)
    namespace = nodes[0].namespace
    parameters = {"robot": robot.robot, "seed": robot.seed}
    cell = NodeSpec("rosa_sim.controller.node", CELL, namespace, parameters)
    seen = NodeSpec(
        "camera_node",
        "camera_node",
        namespace,
        {"robot": robot.robot, "driver": "mujoco", "source": "", "autostart": robot.autostart},
    )
    others = [node for node in nodes if node.executable != "camera_node"]
    seen = next((node for node in nodes if node.executable == "camera_node"), seen)
    return [cell, replace(seen, parameters={**seen.parameters, "driver": "mujoco"}), *others]
