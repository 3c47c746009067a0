"""The nodes of one robot, written once: `launch/pick_place.launch.py` and `bringup.py` both start this list."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

PACKAGE = "rosa_client"

# What `driver` means for the arm and for the cameras.
DRIVERS = {"sim": ("mujoco", "mujoco"), "replay": ("echo", "replay")}


@dataclass(frozen=True)
class NodeSpec:
    """One process: an executable of this package with its name, namespace and parameters."""

    executable: str
    name: str
    namespace: str
    parameters: dict[str, Any] = field(default_factory=dict)
    managed: bool = False  # a lifecycle node, to be configured and activated

    @property
    def full_name(self) -> str:
        return f"{self.namespace.rstrip('/')}/{self.name}"


@dataclass(frozen=True)
class Arguments:
    """What the bring-up of one robot can be told; the launch file's arguments with their texts and defaults."""

    config: str = field(default="", metadata={"doc": "factory file: tasks, components, deadlines, fallbacks"})
    robot: str = field(default="", metadata={"doc": "robot file: cameras, joints, limits, poses"})
    gateway: str = field(default="tcp://127.0.0.1:5570", metadata={"doc": "ZeroMQ endpoint of the server"})
    driver: str = field(
        default="sim", metadata={"doc": "sim: MuJoCo arm and cameras; replay: recorded pictures, no physics"}
    )
    source: str = field(default="", metadata={"doc": "with driver replay: folder of the recorded pictures"})
    namespace: str = field(
        default="panda_0", metadata={"doc": "namespace of the nodes; the robot's name too"}
    )
    use_sim_time: bool = field(default=False, metadata={"doc": "take ROS time from /clock"})
    seed: int = field(default=0, metadata={"doc": "with driver sim: which scene to begin with"})


def robot_graph(given: Arguments) -> list[NodeSpec]:
    """The nodes of one robot in the order of their start: what is needed by others first."""
    if given.driver not in DRIVERS:
        raise ValueError(f"driver: expected one of {', '.join(sorted(DRIVERS))}, got {given.driver!r}")
    arm, camera = DRIVERS[given.driver]
    namespace = "/" + given.namespace.strip("/")
    common = {"robot": given.robot, "use_sim_time": given.use_sim_time}
    return [
        NodeSpec("arm_node", "arm_node", namespace, {**common, "driver": arm, "seed": given.seed}),
        NodeSpec(
            "camera_node", "camera_node", namespace, {**common, "driver": camera, "source": given.source}
        ),
        NodeSpec(
            "runtime_node",
            "runtime_node",
            namespace,
            {**common, "config": given.config, "gateway": given.gateway},
            managed=True,
        ),
    ]
