"""Pandas that pick and place: the nodes of `rosa_client/bringup/graph.py`, brought up, on an installed ROS 2.

ros2 launch rosa_client pick_place.launch.py --show-args

One robot, or with `fleet:=true` all of the factory file; `panel:=true` adds the operator panel, `rviz:=true` RViz too.
What the end of a process means is in `rosa_client/bringup/roles.py`; the launch ends with 1 when a robot was lost.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from ament_index_python.packages import get_package_share_directory
from launch import LaunchContext, LaunchDescription, LaunchDescriptionEntity
from launch.actions import (
    DeclareLaunchArgument,
    ExecuteProcess,
    OpaqueFunction,
    RegisterEventHandler,
    SetEnvironmentVariable,
    TimerAction,
)
from launch.event_handlers import OnProcessExit, OnProcessIO
from launch.events.process import ProcessExited, ProcessIO
from launch.logging import get_logger, launch_config
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue

from rosa_client.bringup.arguments import (
    ENTRIES,
    TRUTHS,
    ArgumentError,
    choices_of,
    misspelt,
    robot_and_cell,
    truth_of,
)
from rosa_client.bringup.description import description_nodes, description_note, prefix
from rosa_client.bringup.graph import (
    PACKAGE,
    Cell,
    NodeSpec,
    Robot,
    bases_of,
    elsewhere,
    panel,
    recorder,
    robot_graph,
    robots_of,
)
from rosa_client.bringup.last_words import LastWords
from rosa_client.bringup.names import Names
from rosa_client.bringup.preflight import check_robots, check_server
from rosa_client.bringup.roles import Roles, roles_of
from rosa_client.executables import PARENT
from rosa_client.operator.rviz import rviz_config
from rosa_contract.config.cameras import raw_topic
from rosa_contract.config.robot import load_robot

SHARE = Path(get_package_share_directory(PACKAGE))
DEFAULTS = {
    "config": str(SHARE / "configs" / "pick_place.yaml"),
    "robot": str(SHARE / "configs" / "robots" / "panda.yaml"),
}
RVIZ = "also run rviz2 with the panel, the cameras and the models of these robots"
NO_RVIZ = "rviz:=true, but rviz2 is not installed: robots and panel run without it (apt install ros-$ROS_DISTRO-rviz2)"
FRAME = "world"
FILES = ("pick_place.launch.py", "fleet.launch.py")
DDS_PROFILE = "FASTDDS_DEFAULT_PROFILES_FILE"
# Its last output may still be under way; and Ctrl-C in a terminal reaches a node before launch has noticed it itself.
SETTLED_AFTER_S = 0.5
NAMES = Names()  # held until this process ends
TIED = [sys.executable, "-m", "rosa_client.bringup.tied"]


def generate_launch_description() -> LaunchDescription:
    """Arguments and environment; what is started depends on them."""
    return LaunchDescription(
        [
            *[declare(name, entry) for name, entry in ENTRIES.items()],
            DeclareLaunchArgument("rviz", default_value="false", description=RVIZ, choices=TRUTHS),
            # A profile of the user's stays.
            SetEnvironmentVariable(
                DDS_PROFILE, os.environ.get(DDS_PROFILE) or str(SHARE / "configs/dds/fastdds.xml")
            ),
            SetEnvironmentVariable("ROSA_HARDWARE_DIR", str(SHARE / "hardware")),
            SetEnvironmentVariable(PARENT, str(os.getpid())),
            OpaqueFunction(function=cell_actions),
        ]
    )


def declare(name: str, entry) -> DeclareLaunchArgument:
    """One argument of the bring-up; its text is what `--show-args` prints."""
    truth = isinstance(entry.default, bool)
    default = DEFAULTS.get(name, str(entry.default).lower() if truth else str(entry.default))
    return DeclareLaunchArgument(
        name, default_value=default, description=entry.metadata["doc"], choices=choices_of(name)
    )


def arguments(context: LaunchContext) -> tuple[Robot, Cell, bool]:
    """The robot, the cell, and whether RViz is wanted; raises `ArgumentError` for an argument that is wrong."""
    if any(Path(word).name in FILES for word in sys.argv) and (problem := misspelt(context.argv, ["rviz"])):
        raise ArgumentError(problem)
    texts = {name: LaunchConfiguration(name).perform(context) for name in ENTRIES}
    robot, cell = robot_and_cell(texts, SHARE)
    return robot, cell, truth_of("rviz", LaunchConfiguration("rviz").perform(context))


def cell_actions(context: LaunchContext) -> list[LaunchDescriptionEntity]:
    """Every robot's nodes and what they share, now that the values of the arguments are known."""
    given, cell, rviz = arguments(context)
    robots = robots_of(given, cell)
    check_robots(robots)
    check_server(robots, cell)
    NAMES.take([robot.namespace for robot in robots])
    if rviz or cell.panel:
        robots = placed(robots)
    exits = Exits(roles_of(robots))
    actions: list[LaunchDescriptionEntity] = []
    if cell.start_server:
        serve = [sys.executable, "-m", "rosa_server.cli", "serve", robots[0].config]
        actions += exits.watched(
            "server", ExecuteProcess(cmd=[*TIED, *serve], name="server", output="screen")
        )
    for robot in robots:
        actions += robot_actions(robot, exits)
    if cell.panel or rviz:
        # Robots work without it, so its end is not theirs: it is started again.
        actions.append(Node(**node_arguments(panel(robots, cell)), respawn=True, respawn_delay=2.0))
    if rviz and prefix("rviz2") is None:
        get_logger("rosa").warning(NO_RVIZ)
    elif rviz:
        actions.append(rviz_action(robots))
    return actions


def placed(robots: list[Robot]) -> list[Robot]:
    """Robots in a row where the arguments do not say where they stand, so that RViz does not draw one in another."""
    bases = bases_of(robots).values()
    return [
        replace(robot, base=robot.base or f"{base.x_m} {base.y_m} {base.z_m} {base.yaw_rad}")
        for robot, base in zip(robots, bases, strict=True)
    ]


def robot_actions(robot: Robot, exits: Exits) -> list[LaunchDescriptionEntity]:
    """The nodes of one robot, and its recorder when one is asked for."""
    actions: list[LaunchDescriptionEntity] = []
    if robot.record:
        actions += exits.watched(recorder(robot).process, recorder_action(robot))
    if note := description_note(robot):
        get_logger("rosa").warning(note)
    for spec in description_nodes(robot):
        actions += exits.watched(spec.process, Node(**node_arguments(spec), prefix=" ".join(TIED)))
    for spec in robot_graph(robot):
        actions += exits.watched(spec.process, Node(**node_arguments(spec)))
    return actions


def recorder_action(robot: Robot) -> ExecuteProcess:
    """ROSA's recorder, which writes one MCAP file, or where its package is missing `ros2 bag`, which makes a folder."""
    if find_spec("mcap") is not None:
        return Node(**node_arguments(recorder(robot)))
    get_logger("rosa").warning(f"no Python package mcap: `ros2 bag` records to a folder {robot.record}")
    inside = f"/{robot.namespace.strip('/')}/.*|/diagnostics|/rosout|/tf|/tf_static|/emergency_stop"
    inside = "|".join([inside, *elsewhere(robot)])
    command = ["ros2", "bag", "record", "-s", "mcap", "-o", robot.record, "--regex", inside]
    return ExecuteProcess(
        cmd=[*TIED, *command, "--exclude-regex", ".*/image_raw"], name="recorder", output="screen"
    )


def rviz_action(robots: list[Robot]) -> Node:
    """rviz2 with a configuration beside the launch's logs; closing its window ends nothing else."""
    cameras = {name: raw_topic(name, camera) for name, camera in load_robot(robots[0].robot).cameras.items()}
    file = Path(launch_config.log_dir) / "operator.rviz"
    file.write_text(rviz_config([robot.namespace for robot in robots], cameras, FRAME))
    return Node(
        package="rviz2",
        executable="rviz2",
        arguments=["-d", str(file)],
        output="screen",
        prefix=" ".join(TIED),
    )


class RobotLostError(Exception):
    """Ends the launch with 1, which nothing but an exception does."""


class Exits:
    """Which processes ended by themselves, what they said, and what follows."""

    def __init__(self, roles: Roles) -> None:
        self._roles = roles
        self._words = LastWords()
        self._ended: dict[str, int] = {}
        self._failed = False

    def watched(self, name: str, process: ExecuteProcess) -> list[LaunchDescriptionEntity]:
        """`process` with handlers for what it writes and for its end; they stand before it, to miss nothing."""

        def heard(event: ProcessIO) -> None:
            for line in event.text.decode(errors="replace").splitlines():
                self._words.hear(name, line)

        def ended(event: ProcessExited, context: LaunchContext) -> LaunchDescriptionEntity | None:
            return self._on_exit(name, event.returncode, context)

        return [
            RegisterEventHandler(OnProcessIO(target_action=process, on_stdout=heard, on_stderr=heard)),
            RegisterEventHandler(OnProcessExit(target_action=process, on_exit=ended)),
            process,
        ]

    def _on_exit(self, name: str, status: int, context: LaunchContext) -> LaunchDescriptionEntity | None:
        if context.is_shutdown:
            if lost := self._roles.lost(self._ended):
                self._fail(f"lost on the way: {', '.join(lost)}")
            return None
        settle = OpaqueFunction(function=lambda context: self._settle(name, status, context))
        return TimerAction(period=SETTLED_AFTER_S, actions=[settle])

    def _settle(self, name: str, status: int, context: LaunchContext) -> None:
        """`name` has ended by itself, unless the launch is being ended too."""
        if context.is_shutdown:
            return
        self._ended[name] = status
        get_logger("rosa").error(self._roles.explain(name, self._ended))
        self._fail(self._roles.all_lost(self._ended, self._words.of))

    def _fail(self, why: str) -> None:
        if why and not self._failed:
            self._failed = True
            raise RobotLostError(why)


def node_arguments(spec: NodeSpec) -> dict:
    """A node as launch takes it."""
    # launch reads bare text as YAML, which would make numbers, mappings or errors of some names and places.
    parameters = {
        name: ParameterValue(value, value_type=str) if isinstance(value, str) else value
        for name, value in spec.parameters.items()
    }
    return {
        "package": spec.package,
        "executable": spec.executable,
        "name": spec.name,
        "namespace": spec.namespace,
        "parameters": [parameters],
        "remappings": list(spec.remap.items()),
        "output": "screen",
    }
