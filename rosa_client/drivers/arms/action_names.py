"""Which actions a gripper needs, and whether somebody serves them with the right type.

Names and types alone, no package of theirs: so `rosa doctor` can ask as well, before anything is installed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from rosa_client.drivers.arms.ros2_control_rules import resolve
from rosa_contract.config.arms import (
    FRANKA,
    GRIPPER_COMMAND,
    NO_GRIPPER,
    PARALLEL_GRIPPER_COMMAND,
    GripperActions,
)

TYPES = {
    GRIPPER_COMMAND: "control_msgs/action/GripperCommand",
    PARALLEL_GRIPPER_COMMAND: "control_msgs/action/ParallelGripperCommand",
}
FEEDBACK = "_FeedbackMessage"  # what its type of messages adds to an action's name


def actions_of(base: str, settings: GripperActions) -> dict[str, str]:
    """Absolute name -> type of each action that the gripper needs; `base`: the controllers' namespace."""
    if settings.kind == NO_GRIPPER:
        return {}
    name = resolve(base, settings.action)
    if settings.kind == FRANKA:
        return {f"{name}/grasp": "franka_msgs/action/Grasp", f"{name}/move": "franka_msgs/action/Move"}
    return {name: TYPES[settings.kind]}


def action_types(node: Any, name: str) -> list[str]:
    """The types of the servers of the action `name`: only a server publishes its feedback."""
    served = node.get_publishers_info_by_topic(f"{name}/_action/feedback")
    return sorted({one.topic_type.removesuffix(FEEDBACK) for one in served})


def why_missing(name: str, wanted: str, served: Collection[str]) -> str:
    """Why nothing can be asked of the action `name` of type `wanted`; empty when it can."""
    if wanted in served:
        return ""
    if not served:
        return f"the gripper has no action server: nobody serves {name} ({short(wanted)}); is its controller active?"
    kinds: Mapping[str, str] = {kind: setting for setting, kind in TYPES.items()}
    offered = next(iter(sorted(served)))
    hint = f"; set arm.gripper.kind: {kinds[offered]}" if offered in kinds else ""
    return f"the gripper's action {name} is a {short(offered)}, expected a {short(wanted)}{hint}"


def short(kind: str) -> str:
    """As people write it: `control_msgs/GripperCommand`."""
    return kind.replace("/action/", "/")
