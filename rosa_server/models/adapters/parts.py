"""What the parts of a model's state and of its actions stand for: joints, grippers, and the space of its actions."""

from __future__ import annotations

from dataclasses import replace

from rosa_contract.config.adapter import (
    ABSOLUTE,
    BASE,
    GRIPPER,
    JOINTS,
    TOOL_POSITION,
    TOOL_ROTATION,
    ActionPart,
    Actions,
    StatePart,
)
from rosa_contract.config.conventions import FINGER_PAIR
from rosa_contract.config.spaces import Space, space_named
from rosa_contract.rotations import SIZES
from rosa_server.models.adapters.resolving import Resolved

JOINT_STATE, GRIPPER_STATE = "joint_position", "gripper_width"
# States made of the joints -> values; a rotation's are as written.
COMPUTED = {TOOL_POSITION: 3, TOOL_ROTATION: 0}


def joints_of(part: ActionPart) -> tuple[int, ...]:
    """The joints that a part orders."""
    return part.joints or tuple(range(len(part.take)))


def grippers_of(part: ActionPart) -> tuple[int, ...]:
    """The grippers that a part orders."""
    return part.grippers or tuple(range(len(part.take)))


def grippers(resolved: Resolved) -> int:
    """How many grippers the robot has, as far as its file or the parts that order them tell."""
    actions = resolved.spec.actions
    parts = [part for part in actions.parts if part.to == GRIPPER] if actions else []
    ordered = [max(grippers_of(part)) + 1 for part in parts if part.take]
    return max([len(resolved.open_m), *ordered] if not resolved.names else [len(resolved.open_m)])


def values_of(part: StatePart, widths: int = 1) -> int | None:
    """How many values a part of a state has; None: as many as the robot's. `widths`: how many grippers it has."""
    if not part.of:
        return len(part.values)
    if part.take:
        return len(part.take)
    if part.of == GRIPPER_STATE:
        return widths * (2 if part.gripper == FINGER_PAIR else 1)
    if part.of == TOOL_POSITION:
        return 3
    return SIZES[part.rotation] if part.of == TOOL_ROTATION else None


def space_of(actions: Actions) -> str | None:
    """The space of the actions that a robot resolves; None where there is no such space."""
    ordering = [part for part in actions.parts if part.to in (JOINTS, TOOL_POSITION, TOOL_ROTATION)]
    spaces = {
        Space(
            JOINTS if part.to == JOINTS else TOOL_POSITION,
            part.mode,
            BASE if part.to == JOINTS else part.frame,
        )
        for part in ordering
    }
    if len(spaces) != 1:
        return None
    [space] = spaces
    if space.mode == ABSOLUTE:
        space = replace(space, frame=BASE)
        arms = {to: {part.arm for part in ordering if part.to == to} for to in (TOOL_POSITION, TOOL_ROTATION)}
        if arms[TOOL_POSITION] != arms[TOOL_ROTATION]:
            return None  # how the tool is turned would depend on what carries it out
    return space_named(space)
