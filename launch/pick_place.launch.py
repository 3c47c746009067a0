"""One Panda that picks and places: the nodes of `rosa_client/graph.py`, brought up, on an installed ROS 2.

ros2 launch rosa_client pick_place.launch.py --show-args
"""

import sys
from dataclasses import fields
from pathlib import Path

from ament_index_python.packages import get_package_share_directory
from launch import LaunchContext, LaunchDescription, LaunchDescriptionEntity
from launch.actions import (
    DeclareLaunchArgument,
    EmitEvent,
    ExecuteProcess,
    OpaqueFunction,
    RegisterEventHandler,
    SetEnvironmentVariable,
    Shutdown,
)
from launch.conditions import IfCondition
from launch.event_handlers import OnProcessStart
from launch.events import matches_action
from launch.events.process import ProcessExited
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import LifecycleNode, Node
from launch_ros.event_handlers import OnStateTransition
from launch_ros.events.lifecycle import ChangeState
from lifecycle_msgs.msg import Transition

from rosa_client.graph import DRIVERS, PACKAGE, NodeSpec, Robot, robot_graph

SHARE = Path(get_package_share_directory(PACKAGE))
DEFAULTS = {
    "config": str(SHARE / "configs" / "pick_place.yaml"),
    "robot": str(SHARE / "configs" / "robots" / "panda.yaml"),
}
CHOICES = {"driver": sorted(DRIVERS)}
BOOLEAN = ["true", "false"]


def generate_launch_description() -> LaunchDescription:
    """Arguments, the server when it is asked for, and the nodes."""
    return LaunchDescription(
        [
            *[declare(entry) for entry in fields(Robot)],
            DeclareLaunchArgument(
                "start_server",
                default_value="false",
                choices=BOOLEAN,
                description="also run `rosa serve` with the same config on this machine",
            ),
            SetEnvironmentVariable("FASTDDS_DEFAULT_PROFILES_FILE", str(SHARE / "configs/dds/fastdds.xml")),
            SetEnvironmentVariable("ROSA_HARDWARE_DIR", str(SHARE / "hardware")),
            ExecuteProcess(
                cmd=[sys.executable, "-m", "rosa_server.cli", "serve", LaunchConfiguration("config")],
                name="server",
                output="screen",
                on_exit=shut_down,
                condition=IfCondition(LaunchConfiguration("start_server")),
            ),
            OpaqueFunction(function=robot_actions),
        ]
    )


def declare(entry) -> DeclareLaunchArgument:
    """One field of `Robot` as a launch argument; its text is what `--show-args` prints."""
    truth = isinstance(entry.default, bool)
    default = DEFAULTS.get(entry.name, str(entry.default).lower() if truth else str(entry.default))
    choices = BOOLEAN if truth else CHOICES.get(entry.name)
    return DeclareLaunchArgument(
        entry.name, default_value=default, description=entry.metadata["doc"], choices=choices
    )


def robot_actions(context: LaunchContext) -> list[LaunchDescriptionEntity]:
    """The nodes, now that the values of the arguments are known."""
    values = {entry.name: LaunchConfiguration(entry.name).perform(context) for entry in fields(Robot)}
    robot = Robot(
        **{
            **values,
            "use_sim_time": values["use_sim_time"] == "true",
            "seed": int(values["seed"]),
        }
    )
    actions: list[LaunchDescriptionEntity] = []
    if robot.record:
        inside = f"/{robot.namespace.strip('/')}/.*|/diagnostics|/rosout"
        command = ["ros2", "bag", "record", "-s", "mcap", "-o", robot.record, "--regex", inside]
        actions.append(ExecuteProcess(cmd=command, name="recorder", output="screen"))
    for spec in robot_graph(robot):
        actions += managed(spec) if spec.managed else [Node(**node_arguments(spec))]
    return actions


def shut_down(event: ProcessExited, context: LaunchContext) -> Shutdown | None:
    """When one process ends, so do all; but not once more while all are being ended."""
    return None if context.is_shutdown else Shutdown(reason=f"{event.process_name} ended")


def node_arguments(spec: NodeSpec) -> dict:
    """What plain and managed nodes have in common: the robot cannot work without any of them."""
    return {
        "package": PACKAGE,
        "executable": spec.executable,
        "name": spec.name,
        "namespace": spec.namespace,
        "parameters": [spec.parameters],
        "remappings": list(spec.remap.items()),
        "output": "screen",
        "on_exit": shut_down,
    }


def managed(spec: NodeSpec) -> list[LaunchDescriptionEntity]:
    """A lifecycle node that is configured when its process has started and activated when it is configured."""
    node = LifecycleNode(**node_arguments(spec))

    def ask(transition: int) -> EmitEvent:
        return EmitEvent(
            event=ChangeState(lifecycle_node_matcher=matches_action(node), transition_id=transition)
        )

    configured = OnStateTransition(
        target_lifecycle_node=node,
        start_state="configuring",
        goal_state="inactive",
        entities=[ask(Transition.TRANSITION_ACTIVATE)],
    )
    started = OnProcessStart(target_action=node, on_start=[ask(Transition.TRANSITION_CONFIGURE)])
    # The handlers stand before the node, so that neither event can come before its handler.
    return [RegisterEventHandler(configured), RegisterEventHandler(started), node]
