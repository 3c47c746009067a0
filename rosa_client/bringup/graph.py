"""The nodes of a cell. `launch/pick_place.launch.py` and `bringup.py` both start these lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rosa_client.drivers.cameras import by_driver
from rosa_client.frames import prefix_of
from rosa_client.operator.bases import Bases, format_bases, parse_bases
from rosa_client.operator.layout import Base
from rosa_contract.config.cameras import info_topic, picture_topic
from rosa_contract.config.factory import load_factory
from rosa_contract.config.robot import load_robot

PACKAGE = "rosa_client"
RUNTIME = "runtime_node"
EXTERNAL = "external"  # somebody else does it

# What `driver` means for the arm and for the cameras; empty: what the robot file names.
DRIVERS = {"robot": ("", ""), "sim": ("mujoco", "mujoco"), "replay": ("echo", "replay")}


@dataclass(frozen=True)
class NodeSpec:
    """One process: an executable of a package, or a module of its own, with name, namespace, parameters, remaps."""

    executable: str
    name: str
    namespace: str
    parameters: dict[str, Any] = field(default_factory=dict)
    # the node's name of a topic or service -> the name in use
    remap: dict[str, str] = field(default_factory=dict)
    package: str = PACKAGE

    @property
    def full_name(self) -> str:
        return f"{self.namespace.rstrip('/')}/{self.name}"

    @property
    def process(self) -> str:
        """The name of its process in messages and of its log file."""
        return self.full_name.strip("/")

    @property
    def is_runtime(self) -> bool:
        """The node that does a robot's tasks, whatever runs it."""
        return self.name == RUNTIME


@dataclass(frozen=True)
class Robot:
    """The bring-up arguments of one robot, with defaults and help texts; the launch file takes them from here."""

    config: str = field(default="", metadata={"doc": "factory file: tasks, components, deadlines, fallbacks"})
    robot: str = field(default="", metadata={"doc": "robot file: cameras, joints, limits, poses"})
    gateway: str = field(default="tcp://127.0.0.1:5570", metadata={"doc": "ZeroMQ endpoint of the server"})
    keys: str = field(
        default="",
        metadata={"doc": "key folder of `rosa keys`, for a server that demands keys; empty: no encryption"},
    )
    driver: str = field(
        default="robot",
        metadata={
            "doc": "robot: the drivers that the robot file names; sim: MuJoCo; replay: recorded pictures, no physics"
        },
    )
    source: str = field(default="", metadata={"doc": "with driver replay: folder of the recorded pictures"})
    namespace: str = field(default="panda0", metadata={"doc": "namespace of the nodes; the robot's name too"})
    use_sim_time: bool = field(
        default=False,
        metadata={
            "doc": "take ROS time from /clock, which somebody must publish, such as `ros2 bag play --clock`"
        },
    )
    record: str = field(
        default="",
        metadata={"doc": "record every topic but uncompressed pictures to this MCAP file; empty: do not"},
    )
    seed: int = field(default=0, metadata={"doc": "with simulated drivers: which scene to begin with"})
    task: str = field(default="", metadata={"doc": "its task; empty: the first of the file's robot_fleet"})
    base: str = field(
        default="",
        metadata={
            "doc": "where its base stands in the frame `world`: 'x y z yaw' in m and rad; empty: not known"
        },
    )
    autostart: bool = field(
        default=True,
        metadata={"doc": "make the nodes active; false: a lifecycle manager, such as nav2's, does it"},
    )
    description: str = field(
        default="",
        metadata={
            "doc": "URDF or xacro file for robot_state_publisher; empty: franka_description's where installed, else"
            " ROSA's own; external: another launch publishes the robot's TF, without our prefix"
        },
    )


@dataclass(frozen=True)
class Cell:
    """Bring-up arguments for the whole cell."""

    fleet: bool = field(
        default=False,
        metadata={"doc": "every robot of the file's robot_fleet with its task, counted from `namespace`"},
    )
    panel: bool = field(default=False, metadata={"doc": "also run the operator panel, one for all robots"})
    operator: str = field(default="", metadata={"doc": "who sits at the panel, for the audit"})
    start_server: bool = field(default=False, metadata={"doc": "also run `rosa serve` with the same config"})


def robots_of(given: Robot, cell: Cell) -> list[Robot]:
    """The given robot, or the whole fleet of its factory file.

    A fleet's namespaces count on from the given one: panda0, panda1, ... Raises `ConfigError` for a wrong file.
    """
    if not cell.fleet:
        return [given]
    tasks = [entry.task for entry in load_factory(given.config).robot_fleet for _ in range(entry.num_robots)]
    prefix = given.namespace.strip("/").rstrip("0123456789")
    first = int(given.namespace.strip("/")[len(prefix) :] or 0)
    return [
        replace(
            given,
            namespace=f"{prefix}{first + index}",
            task=task,
            seed=given.seed + index,
            record=_record_of(given.record, f"{prefix}{first + index}"),
        )
        for index, task in enumerate(tasks)
    ]


def _record_of(record: str, namespace: str) -> str:
    path = Path(record)
    return str(path.with_name(f"{path.stem}_{namespace}{path.suffix}")) if record else ""


def bases_of(robots: Sequence[Robot]) -> dict[str, Base]:
    """Where robots stand in the panel's frame, by namespace. Raises `ConfigError` for a wrong `base`."""
    names = ["/" + robot.namespace.strip("/") for robot in robots]
    said = {name: robot.base for name, robot in zip(names, robots, strict=True) if robot.base}
    bases = Bases(parse_bases("; ".join(f"{name.strip('/')}: {text}" for name, text in said.items())))
    return {name: bases.of(name) for name in names}


def panel(robots: Sequence[Robot], cell: Cell) -> NodeSpec:
    """The operator panel. It places these robots, and shows any other that it finds."""
    values = {
        "operator": cell.operator,
        "bases": format_bases(bases_of(robots)),
        "use_sim_time": robots[0].use_sim_time,
    }
    return NodeSpec("operator_node", "operator_node", "/", values)


def robot_graph(given: Robot) -> list[NodeSpec]:
    """The nodes of one robot in start order: those that others need come first.

    The robot file decides: a robot whose cameras are all external has no camera node. Raises `ConfigError` for a file
    that cannot be read.
    """
    if given.driver not in DRIVERS:
        raise ValueError(f"driver: expected one of {', '.join(sorted(DRIVERS))}, got {given.driver!r}")
    arm, camera = DRIVERS[given.driver]
    common = {"robot": given.robot, "use_sim_time": given.use_sim_time, "autostart": given.autostart}
    wanted = {"arm_node": {**common, "driver": arm, "seed": given.seed}}
    if by_driver(load_robot(given.robot), camera):
        wanted["camera_node"] = {**common, "driver": camera, "source": given.source}
    wanted[RUNTIME] = {
        **common,
        "config": given.config,
        "gateway": given.gateway,
        "keys": given.keys,
        "task": given.task,
        "base": given.base,
        "recording": given.record,
        "frame_prefix": "" if given.description == EXTERNAL else prefix_of(given.namespace),
    }
    namespace = "/" + given.namespace.strip("/")
    return [NodeSpec(name, name, namespace, values) for name, values in wanted.items()]


def recorder(given: Robot) -> NodeSpec:
    """The recorder for machines without `ros2 bag`. Start it first, so that it misses nothing."""
    namespace = "/" + given.namespace.strip("/")
    values = {"path": given.record, "also": ",".join(elsewhere(given))}
    return NodeSpec("recorder_node", "recorder_node", namespace, values)


def elsewhere(given: Robot) -> list[str]:
    """The topics of its cameras that are not in its namespace, such as those of a vendor's driver."""
    cameras = load_robot(given.robot).cameras.items()
    topics = [topic(name, spec) for name, spec in cameras for topic in (picture_topic, info_topic)]
    return [topic for topic in topics if topic.startswith("/")]
