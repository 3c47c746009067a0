"""What is left open between an adapter and its model, and what a robot must have for both: everything at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rosa_contract.config.adapter import (
    EXACT,
    GRIPPER,
    JOINTS,
    NOTHING,
    ROBOT,
    SERVER,
    ActionPart,
    Adapter,
    StatePart,
)
from rosa_contract.config.conventions import AS_IS
from rosa_contract.wording import nearest
from rosa_server.models.adapters.parts import (
    COMPUTED,
    GRIPPER_STATE,
    JOINT_STATE,
    grippers,
    joints_of,
    space_of,
    values_of,
)
from rosa_server.models.adapters.resolving import Resolved
from rosa_server.models.backend import InputSpec


def model_problems(resolved: Resolved, model: InputSpec) -> list[str]:
    """What is left unmapped between an adapter and what its model says that it takes."""
    spec, words = resolved.spec, []
    if spec.cameras:
        for key, size in model.images.items():
            one = spec.cameras.get(key)
            if one is None:
                hint = nearest(key, spec.cameras)
                words.append(f"the model's camera {key!r} is mapped to none of the robot's{hint}")
            elif one.height is not None and (one.height, one.width) != tuple(size):
                given = f"{one.width}x{one.height}"
                words.append(f"the model takes {key!r} as {size[1]}x{size[0]} px, the adapter gives {given}")
        for key in spec.cameras:
            if key not in model.images:
                words.append(f"the model has no camera {key!r}{nearest(key, model.images)}")
    if spec.state:
        for key, length in model.state.items():
            if key not in spec.state:
                words.append(
                    f"the model's state {key!r} is mapped to none of the robot's{nearest(key, spec.state)}"
                )
                continue
            counts = [values_of(part, grippers(resolved)) for part in spec.state[key]]
            known = sum(count for count in counts if count is not None)
            if None not in counts and known != length:
                words.append(f"the model takes {length} values of state {key!r}, the adapter gives {known}")
            elif None in counts and known >= length:
                words.append(f"the model takes {length} values of state {key!r}, the adapter gives more")
        for key in spec.state:
            if key not in model.state:
                words.append(f"the model has no state {key!r}{nearest(key, model.state)}")
    return words


def robot_needs(resolved: Resolved, model: InputSpec) -> InputSpec:
    """What a robot must have: its own cameras and states. Raises `ValueError` for what cannot be known."""
    spec = resolved.spec
    images: dict[str, tuple[int, int]] = {}
    resizes = set()
    for key, one in spec.cameras.items():
        own = model.images.get(key, (0, 0))
        size = (one.height or own[0], one.width or own[1])
        if not all(size):
            raise ValueError(
                f"cameras.{key}: its model does not say which size it takes; give height and width"
            )
        if one.fit == EXACT:
            images[one.camera] = (size[1], size[0]) if one.turn_deg % 180 else size
        else:
            images[one.camera] = (one.max_height, one.max_width)
            resizes.add(one.camera)
    if not spec.cameras:
        images = dict(model.images)
    state = _robot_state(resolved, model)
    mapped = bool(spec.cameras or spec.state or spec.actions)
    unused = set(spec.unused)
    by_robot = spec.actions is not None and spec.actions.resolved_by == ROBOT
    if by_robot:  # what it has them for
        unused |= {JOINT_STATE, GRIPPER_STATE} - state.keys()
    space = space_of(spec.actions) if spec.actions is not None and by_robot else None
    return InputSpec(images, state, frozenset(resizes), frozenset(unused) if mapped else None, space or "")


def _robot_state(resolved: Resolved, model: InputSpec) -> dict[str, int]:
    spec = resolved.spec
    parts = [part for parts in spec.state.values() for part in parts]
    to = [part for part in spec.actions.parts if part.to != NOTHING] if spec.actions else []
    needed = (
        dict(model.state)
        if not spec.state
        else {part.of: 0 for part in parts if part.of not in ("", *COMPUTED)}
    )
    here = spec.actions is not None and spec.actions.resolved_by == SERVER
    if any(part.of in COMPUTED for part in parts) or (here and any(part.to != GRIPPER for part in to)):
        needed.setdefault(JOINT_STATE, 0)
    if any(part.to == GRIPPER for part in to):
        needed[GRIPPER_STATE] = grippers(resolved)
    for name, length in needed.items():
        needed[name] = length or _length(resolved, model, name)
    return needed


def _length(resolved: Resolved, model: InputSpec, name: str) -> int:
    """How many values a robot's state has, from all that is known of it."""
    if name == GRIPPER_STATE:
        return grippers(resolved)
    spec = resolved.spec
    if name == JOINT_STATE:
        if resolved.joints is not None:
            return resolved.joints
        ordered = (
            [joint for part in spec.actions.parts if part.to == JOINTS for joint in joints_of(part)]
            if spec.actions
            else []
        )
        if ordered:
            return max(ordered) + 1
    for key, parts in spec.state.items():
        counts = [values_of(part, grippers(resolved)) for part in parts]
        if key in model.state and counts.count(None) == 1 and parts[counts.index(None)].of == name:
            return model.state[key] - sum(count for count in counts if count is not None)
    taken = [
        max(part.take) + 1 for parts in spec.state.values() for part in parts if part.of == name and part.take
    ]
    if taken:
        return max(taken)
    raise ValueError(
        f"state {name!r}: nothing says how many values the robot's has; give `take`, or name the robot file in `robot`"
    )


def robot_file_problems(resolved: Resolved, grippers_m: Sequence[tuple[float, float]]) -> list[str]:
    """What a robot file contradicts. `grippers_m`: closed and open width of each of its grippers."""
    if not grippers_m or not _speaks_of_gripper(resolved.spec):
        return []
    mine = list(zip(resolved.closed_m, resolved.open_m, strict=True))
    if len(mine) == len(grippers_m) and np.abs(np.array(mine) - np.array(grippers_m)).max() < 1e-4:
        return []
    shown = [", ".join(f"{low:g} to {high:g} m" for low, high in ranges) for ranges in (mine, grippers_m)]
    return [f"the adapter's gripper opens {shown[0]}, the robot's {shown[1]}; name the robot file in `robot`"]


def _speaks_of_gripper(spec: Adapter) -> bool:
    parts: list[StatePart | ActionPart] = [part for parts in spec.state.values() for part in parts]
    parts += spec.actions.parts if spec.actions else ()
    return any(part.gripper not in (AS_IS, "width") for part in parts)
