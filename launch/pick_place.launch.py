"""Pandas that pick and place: the nodes of `rosa_client/bringup/graph.py`, brought up, on an installed ROS 2.

ros2 launch rosa_client pick_place.launch.py --show-args

One robot, or with `fleet:=true` all of the factory file; `panel:=true` adds the operator panel, `rviz:=true` RViz too.
What the end of a process means is in `rosa_client/bringup/roles.py`; the launch ends with 1 when a robot was lost.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

from ament_index_python.packages import PackageNotFoundError, get_package_prefix, get_package_share_directory
from launch import LaunchContext, LaunchDescription, LaunchDescriptionEntity
from launch.actions import (
    DeclareLaunchArgument,
    EmitEvent,
    ExecuteProcess,
    OpaqueFunction,
    RegisterEventHandler,
    SetEnvironmentVariable,
)
from launch.event_handlers import OnProcessStart
from launch.events import matches_action
from launch.events.process import ProcessExited
from launch.logging import get_logger
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import LifecycleNode, Node
from launch_ros.event_handlers import OnStateTransition
from launch_ros.events.lifecycle import ChangeState
from launch_ros.parameter_descriptions import ParameterValue
from lifecycle_msgs.msg import Transition

from rosa_client.bringup.graph import (
    DRIVERS,
    PACKAGE,
    Cell,
    NodeSpec,
    Robot,
    bases_of,
    panel,
    recorder,
    robot_graph,
    robots_of,
)
from rosa_client.bringup.names import Names
from rosa_client.bringup.preflight import check_robots
from rosa_client.bringup.roles import Roles, roles_of
from rosa_client.operator.rviz import rviz_config
from rosa_contract.robot import load_robot

SHARE = Path(get_package_share_directory(PACKAGE))
DEFAULTS = {
    "config": str(SHARE / "configs" / "pick_place.yaml"),
    "robot": str(SHARE / "configs" / "robots" / "panda.yaml"),
}
CHOICES = {"driver": sorted(DRIVERS)}
BOOLEAN = ["true", "false"]
FRAME = "world"
NAMES = Names()  # held until this process ends


def generate_launch_description() -> LaunchDescription:
    """Arguments and environment; what is started depends on them."""
    return LaunchDescription(
        [
            *[declare(entry) for entry in (*fields(Robot), *fields(Cell))],
            DeclareLaunchArgument(
                "rviz",
                default_value="false",
                choices=BOOLEAN,
                description="also run rviz2 with the panel, the cameras and the models of these robots",
            ),
            SetEnvironmentVariable("FASTDDS_DEFAULT_PROFILES_FILE", str(SHARE / "configs/dds/fastdds.xml")),
            SetEnvironmentVariable("ROSA_HARDWARE_DIR", str(SHARE / "hardware")),
            OpaqueFunction(function=cell_actions),
        ]
    )


def declare(entry) -> DeclareLaunchArgument:
    """One field of `Robot` or `Cell` as a launch argument; its text is what `--show-args` prints."""
    truth = isinstance(entry.default, bool)
    default = DEFAULTS.get(entry.name, str(entry.default).lower() if truth else str(entry.default))
    choices = BOOLEAN if truth else CHOICES.get(entry.name)
    return DeclareLaunchArgument(
        entry.name, default_value=default, description=entry.metadata["doc"], choices=choices
    )


def given(kind: type, context: LaunchContext):
    """A `Robot` or a `Cell` as the arguments say, in the types of its fields."""
    values = {}
    for entry in fields(kind):
        text = LaunchConfiguration(entry.name).perform(context)
        values[entry.name] = text == "true" if isinstance(entry.default, bool) else type(entry.default)(text)
    return kind(**values)


def cell_actions(context: LaunchContext) -> list[LaunchDescriptionEntity]:
    """Every robot's nodes and what they share, now that the values of the arguments are known."""
    cell = given(Cell, context)
    robots = robots_of(given(Robot, context), cell)
    check_robots(robots)
    NAMES.take([robot.namespace for robot in robots])
    rviz = LaunchConfiguration("rviz").perform(context) == "true"
    exits = Exits(roles_of(robots))
    actions: list[LaunchDescriptionEntity] = []
    if cell.start_server:
        serve = [sys.executable, "-m", "rosa_server.cli", "serve", robots[0].config]
        actions.append(ExecuteProcess(cmd=serve, name="server", output="screen", on_exit=exits.of("server")))
    for robot in robots:
        actions += robot_actions(robot, exits)
    if cell.panel or rviz:
        # Robots work without it, so its end is not theirs: it is started again.
        actions.append(Node(**node_arguments(panel(robots, cell)), respawn=True, respawn_delay=2.0))
        actions += model_actions(robots)
    if rviz:
        actions.append(rviz_action(robots))
    return actions


def robot_actions(robot: Robot, exits: Exits) -> list[LaunchDescriptionEntity]:
    """The nodes of one robot, and its recorder when one is asked for."""
    actions: list[LaunchDescriptionEntity] = []
    if robot.record:
        inside = f"/{robot.namespace.strip('/')}/.*|/diagnostics|/rosout|/emergency_stop"
        command = ["ros2", "bag", "record", "-s", "mcap", "-o", robot.record, "--regex", inside]
        on_exit = exits.of(recorder(robot).process)
        actions.append(ExecuteProcess(cmd=command, name="recorder", output="screen", on_exit=on_exit))
    for spec in robot_graph(robot):
        arguments = {**node_arguments(spec), "on_exit": exits.of(spec.process)}
        actions += managed(arguments) if spec.managed else [Node(**arguments)]
    return actions


def model_actions(robots: list[Robot]) -> list[LaunchDescriptionEntity]:
    """For RViz: each robot's model and where it stands. Without robot_state_publisher the panel shows the rest."""
    if not (installed("robot_state_publisher") and installed("tf2_ros")):
        return []
    actions: list[LaunchDescriptionEntity] = []
    for robot, base in zip(robots, bases_of(robots).values(), strict=True):
        kind = load_robot(robot.robot).name
        urdf = SHARE / "hardware" / kind / f"{kind}.urdf"
        if not urdf.is_file():
            continue
        name = robot.namespace.strip("/")
        parameters = {
            "robot_description": ParameterValue(urdf.read_text(), value_type=str),
            "frame_prefix": f"{name}/",
            "use_sim_time": robot.use_sim_time,
        }
        place = {"x": base.x_m, "y": base.y_m, "z": base.z_m, "yaw": base.yaw_rad}
        actions += [
            Node(
                package="robot_state_publisher",
                executable="robot_state_publisher",
                namespace=robot.namespace,
                parameters=[parameters],
            ),
            Node(
                package="tf2_ros",
                executable="static_transform_publisher",
                name="base",
                namespace=robot.namespace,
                arguments=[
                    *(word for key, value in place.items() for word in (f"--{key}", str(value))),
                    *("--frame-id", FRAME, "--child-frame-id", f"{name}/{kind}_link0"),
                ],
            ),
        ]
    return actions


def rviz_action(robots: list[Robot]) -> Node:
    """rviz2 with a configuration for these robots; closing its window ends nothing else."""
    cameras = list(load_robot(robots[0].robot).cameras)
    with tempfile.NamedTemporaryFile("w", prefix="operator_", suffix=".rviz", delete=False) as file:
        file.write(rviz_config([robot.namespace for robot in robots], cameras, FRAME))
    return Node(package="rviz2", executable="rviz2", arguments=["-d", file.name], output="screen")


def installed(package: str) -> bool:
    """Whether a package of ROS 2 is there."""
    try:
        get_package_prefix(package)
    except PackageNotFoundError:
        return False
    return True


class RobotLostError(Exception):
    """Ends the launch with 1, which nothing but an exception does."""


class Exits:
    """Processes that ended by themselves; handlers for the ends of the others."""

    def __init__(self, roles: Roles) -> None:
        self._roles = roles
        self._ended: dict[str, int] = {}
        self._failed = False

    def of(self, name: str) -> Callable[[ProcessExited, LaunchContext], None]:
        """What to do when the process `name` ends."""
        return lambda event, context: self._on_exit(name, event.returncode, context)

    def _on_exit(self, name: str, status: int, context: LaunchContext) -> None:
        if not context.is_shutdown:
            self._ended[name] = status
            get_logger("rosa").error(self._roles.explain(name, self._ended))
            self._fail(self._roles.all_lost(self._ended))
        elif lost := self._roles.lost(self._ended):
            self._fail(f"lost on the way: {', '.join(lost)}")

    def _fail(self, why: str) -> None:
        if why and not self._failed:
            self._failed = True
            raise RobotLostError(why)


def node_arguments(spec: NodeSpec) -> dict:
    """What plain and managed nodes have in common."""
    # launch reads bare text as YAML, which would make numbers, mappings or errors of some names and places.
    parameters = {
        name: ParameterValue(value, value_type=str) if isinstance(value, str) else value
        for name, value in spec.parameters.items()
    }
    return {
        "package": PACKAGE,
        "executable": spec.executable,
        "name": spec.name,
        "namespace": spec.namespace,
        "parameters": [parameters],
        "remappings": list(spec.remap.items()),
        "output": "screen",
    }


def managed(arguments: dict) -> list[LaunchDescriptionEntity]:
    """A lifecycle node that is configured when its process has started and activated when it is configured."""
    node = LifecycleNode(**arguments)

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
