"""The nodes of one robot, written once: `launch/pick_place.launch.py` and `bringup.py` both start this list."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

PACKAGE = "rosa_client"

# What `driver` means for the arm and for the cameras.
DRIVERS = {"sim": ("mujoco", "mujoco"), "replay": ("echo", "replay")}


@dataclass(frozen=True)
class NodeSpec:
    """One process: an executable of this package, or a module of its own, with name, namespace, parameters, remaps."""

    executable: str
    name: str
    namespace: str
    parameters: dict[str, Any] = field(default_factory=dict)
    managed: bool = False  # a lifecycle node, to be configured and activated
    # topic or service as the node names it -> as others do
    remap: dict[str, str] = field(default_factory=dict)

    @property
    def full_name(self) -> str:
        return f"{self.namespace.rstrip('/')}/{self.name}"


@dataclass(frozen=True)
class Robot:
    """What the bring-up of one robot can be told: the launch file's arguments with their defaults and texts."""

    config: str = field(default="", metadata={"doc": "factory file: tasks, components, deadlines, fallbacks"})
    robot: str = field(default="", metadata={"doc": "robot file: cameras, joints, limits, poses"})
    gateway: str = field(default="tcp://127.0.0.1:5570", metadata={"doc": "ZeroMQ endpoint of the server"})
    driver: str = field(
        default="sim", metadata={"doc": "sim: MuJoCo arm and cameras; replay: recorded pictures, no physics"}
    )
    source: str = field(default="", metadata={"doc": "with driver replay: folder of the recorded pictures"})
    namespace: str = field(default="panda0", metadata={"doc": "namespace of the nodes; the robot's name too"})
    use_sim_time: bool = field(default=False, metadata={"doc": "take ROS time from /clock"})
    record: str = field(default="", metadata={"doc": "record every topic to this MCAP file; empty: do not"})
    seed: int = field(default=0, metadata={"doc": "with driver sim: which scene to begin with"})


def robot_graph(given: Robot) -> list[NodeSpec]:
    """The nodes of one robot in the order of their start: what is needed by others first."""
    if given.driver not in DRIVERS:
        raise ValueError(f"driver: expected one of {', '.join(sorted(DRIVERS))}, got {given.driver!r}")
    arm, camera = DRIVERS[given.driver]
    common = {"robot": given.robot, "use_sim_time": given.use_sim_time}
    wanted = {
        "arm_node": {**common, "driver": arm, "seed": given.seed},
        "camera_node": {**common, "driver": camera, "source": given.source},
        "runtime_node": {**common, "config": given.config, "gateway": given.gateway},
    }
    namespace = "/" + given.namespace.strip("/")
    return [
        NodeSpec(name, name, namespace, values, name == "runtime_node") for name, values in wanted.items()
    ]


def recorder(given: Robot) -> NodeSpec:
    """What records a robot where there is no `ros2 bag`; start it before the others so that it misses nothing."""
    namespace = "/" + given.namespace.strip("/")
    return NodeSpec("recorder_node", "recorder_node", namespace, {"path": given.record})
