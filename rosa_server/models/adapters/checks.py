"""What does not fit within an adapter, whatever its model and its robots are: every mistake at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from string import Formatter

from rosa_contract.config.adapter import (
    ABSOLUTE,
    GRIPPER,
    JOINTS,
    ROBOT,
    SERVER,
    TOOL_POSITION,
    TOOL_ROTATION,
    VELOCITY,
    ActionPart,
    Actions,
    Adapter,
    StatePart,
)
from rosa_contract.config.conventions import AS_IS, FINGER_PAIR, OF_RANGE, WIDTH
from rosa_contract.config.spaces import SPACES
from rosa_contract.errors import ConfigError, ConfigProblem
from rosa_contract.rotations import SIZES
from rosa_contract.wording import nearest
from rosa_server.models.adapters.normalising import load_scales
from rosa_server.models.adapters.parts import (
    COMPUTED,
    GRIPPER_STATE,
    JOINT_STATE,
    grippers,
    grippers_of,
    joints_of,
    space_of,
    values_of,
)
from rosa_server.models.adapters.resolving import Resolved

PROMPT_FIELDS = ("prompt", "prompt_lower", "robot", "component")
Problem = tuple[str, str, str]  # path, cause of `CONFIG_CAUSES`, words


def adapter_problems(resolved: Resolved) -> list[ConfigProblem]:
    """What is wrong with an adapter whatever its model and robots are; paths begin below `adapter`."""
    spec = resolved.spec
    found = [
        *_cameras(spec),
        *_state(resolved),
        *_actions(resolved),
        *_frames(spec),
        *_prompt(spec.prompt),
        *_normalisation(spec),
    ]
    for closed_m, open_m in zip(resolved.closed_m, resolved.open_m, strict=True):
        if closed_m >= open_m:
            words = f"must be > the closed gripper's width ({closed_m:g}), got {open_m:g}"
            found.append(("gripper_open_m", "conflict", words))
            break
    return [ConfigProblem(path, cause, words) for path, cause, words in found]


def _cameras(spec: Adapter) -> Iterator[Problem]:
    of: dict[str, str] = {}
    for key, one in spec.cameras.items():
        where = f"cameras.{key}"
        if one.camera in of:
            words = (
                f"camera {one.camera!r} is also given as {of[one.camera]!r}: the model would see one twice"
            )
            yield f"{where}.camera", "conflict", words
        of.setdefault(one.camera, key)
        if (one.height is None) != (one.width is None):
            yield where, "missing", "expected height and width, got one of them"
        if one.turn_deg not in (0, 90, 180, 270):
            yield f"{where}.turn_deg", "out_of_range", f"expected 0, 90, 180 or 270, got {one.turn_deg}"
    for name in spec.unused:
        if name in of:
            yield "unused", "conflict", f"camera {name!r} is unused, and given as {of[name]!r}"


def _frames(spec: Adapter) -> Iterator[Problem]:
    """A robot that resolves places of the tool by itself knows neither frame."""
    actions = spec.actions
    if actions is None or actions.resolved_by == SERVER:
        return
    parts = [part for part in actions.parts if part.to in (TOOL_POSITION, TOOL_ROTATION)]
    words = "the robot does not know it; leave `actions.resolved_by: robot` out"
    if parts and spec.tool_frame is not None:
        yield "tool_frame", "conflict", words
    base = spec.base_frame
    if parts and base is not None and (any(base.rpy_deg) or any(part.mode == ABSOLUTE for part in parts)):
        yield "base_frame", "conflict", words  # steps along its axes are the same from anywhere


def _of_range(resolved: Resolved, part: StatePart | ActionPart, joints: bool) -> Iterator[Problem]:
    """A share of the range needs to know the range, and has no other zero or scale."""
    if part.unit != OF_RANGE:
        return
    if not joints:
        yield ".unit", "conflict", f"{OF_RANGE} is of joint positions only"
    elif resolved.joints is None:
        words = f"{OF_RANGE} needs the joints' limits; name the robot file in `adapter.robot`"
        yield ".unit", "missing", words
    if part.zeros:
        yield ".zeros", "conflict", f"not with {OF_RANGE}, whose 0 is the middle of the range"
    if isinstance(part, ActionPart) and part.scale != 1.0:
        yield ".scale", "conflict", f"not with {OF_RANGE}"


def _state(resolved: Resolved) -> Iterator[Problem]:
    for key, parts in resolved.spec.state.items():
        if not parts:
            yield f"state.{key}", "missing", "is empty; expected where its values are from"
        for index, part in enumerate(parts):
            for name, cause, words in _state_part(resolved, part):
                yield f"state.{key}[{index}]{name}", cause, words


def _state_part(resolved: Resolved, part: StatePart) -> Iterator[Problem]:
    if bool(part.of) == bool(part.values):
        yield "", "conflict", "expected either `of` or `values`"
    yield from _arm(resolved, part.arm, part.of in COMPUTED)
    yield from _of_range(resolved, part, part.of == JOINT_STATE)
    if part.of in COMPUTED and not resolved.arms:
        words = (
            f"{part.of} is computed from the joints; name a robot file that has a `chain` in `adapter.robot`"
        )
        yield ".of", "missing", words
    if part.of in resolved.spec.unused:
        yield ".of", "conflict", f"{part.of!r} is in `unused`, and taken here"
    if part.gripper and part.of != GRIPPER_STATE:
        yield ".gripper", "conflict", f"only of {GRIPPER_STATE}, got it of {part.of or 'numbers'!r}"
    if not part.of or part.gripper not in (AS_IS, WIDTH):
        given = ("zeros", "signs") if part.of else ("take", "zeros", "signs")
        for name in given:
            if getattr(part, name):
                yield (
                    f".{name}",
                    "conflict",
                    f"not of {f'a gripper as {part.gripper}' if part.of else 'numbers'}",
                )
    if repeated := [str(one) for one, count in Counter(part.take).items() if count > 1]:
        yield ".take", "conflict", f"{', '.join(repeated)} stands in it twice"
    known = {
        JOINT_STATE: resolved.joints,
        GRIPPER_STATE: grippers(resolved) * (2 if part.gripper == FINGER_PAIR else 1),
        TOOL_POSITION: 3,
    }
    limit = SIZES[part.rotation] if part.of == TOOL_ROTATION else known.get(part.of)
    if limit is not None and part.take and max(part.take) >= limit:
        yield ".take", "out_of_range", f"{part.of} has values 0 to {limit - 1}, got {max(part.take)}"
    count = values_of(part, grippers(resolved))
    yield from _lists(part, count if count is not None else known.get(part.of))


def _arm(resolved: Resolved, arm: str, of_tool: bool) -> Iterator[Problem]:
    """The arm whose tool a part is about."""
    if not of_tool:
        if arm:
            yield ".arm", "conflict", "only of a tool"
    elif resolved.arms and arm not in resolved.arm_names:
        known = ", ".join(one for one in resolved.arm_names if one)
        words = (
            f"expected one of the robot's arms, {known}" if known else "the robot has one arm, without a name"
        )
        yield ".arm", "unknown_name", f"{words}; got {arm!r}{nearest(arm, resolved.arm_names)}"


def _lists(part: StatePart | ActionPart, count: int | None) -> Iterator[Problem]:
    for name in ("zeros", "signs"):
        given = getattr(part, name)
        if given and count is not None and len(given) != count:
            yield f".{name}", "wrong_length", f"expected {count} values, one each, got {len(given)}"
    if any(abs(sign) != 1 for sign in part.signs):
        yield ".signs", "out_of_range", "expected 1 or -1 each"


def _actions(resolved: Resolved) -> Iterator[Problem]:
    actions = resolved.spec.actions
    if actions is None:
        return
    columns = [name for names in actions.columns.values() for name in names]
    for name, count in Counter(columns).items():
        if count > 1:
            yield "actions.columns", "duplicate_key", f"column {name!r} stands in it {count} times"
    if not columns:
        yield "actions.columns", "missing", "is empty; expected the names of the model's columns"
    taken: Counter[str] = Counter()
    for index, part in enumerate(actions.parts):
        where = f"actions.parts[{index}]"
        for name in part.take:
            if name not in columns:
                words = (
                    f"no column {name!r}{nearest(name, columns)}; there are {', '.join(columns) or 'none'}"
                )
                yield f"{where}.take", "unknown_name", words
        taken.update(part.take)
        for name, cause, words in _action_part(resolved, part):
            yield f"{where}{name}", cause, words
    if twice := [name for name, count in taken.items() if count > 1]:
        yield "actions.parts", "conflict", f"taken more than once: {', '.join(twice)}"
    if left := [name for name in columns if name not in taken]:
        words = f"the model's columns {', '.join(left)} go nowhere; give them a part, or one `to: nothing`"
        yield "actions.parts", "missing", words
    yield from _targets(resolved)
    if actions.resolved_by == ROBOT and (words := _not_for_robots(actions)):
        yield "actions.resolved_by", "conflict", words


def _not_for_robots(actions: Actions) -> str:
    if space_of(actions) is not None:
        return ""
    if all(part.mode == ABSOLUTE for part in actions.parts if part.to == JOINTS) and any(
        part.to == JOINTS for part in actions.parts
    ):
        return "the answer is joint positions already; leave it out"
    return (
        f"a robot takes {', '.join(SPACES)}: position and rotation of the tool, or all joints, in one mode and one"
        " frame"
    )


def _action_part(resolved: Resolved, part: ActionPart) -> Iterator[Problem]:
    actions = resolved.spec.actions
    assert actions is not None
    count = len(part.take)
    wanted = {TOOL_POSITION: 3, TOOL_ROTATION: SIZES[part.rotation]}.get(part.to)
    if wanted is not None and count != wanted:
        yield ".take", "wrong_length", f"expected {wanted} columns for {part.to}, got {count}"
    here = actions.resolved_by == SERVER
    yield from _arm(resolved, part.arm, part.to in (TOOL_POSITION, TOOL_ROTATION))
    yield from _of_range(resolved, part, part.to == JOINTS)
    if here and part.to in (TOOL_POSITION, TOOL_ROTATION) and not resolved.arms:
        words = (
            f"{part.to} needs inverse kinematics; name a robot file that has a `chain` in `adapter.robot`, or let the"
            " robot do it: `resolved_by: robot`"
        )
        yield ".to", "missing", words
    if part.joints and part.to != JOINTS:
        yield ".joints", "conflict", f"only to {JOINTS}, got it to {part.to}"
    if part.joints and len(part.joints) != count:
        yield (
            ".joints",
            "wrong_length",
            f"expected {count} joints, one for each column, got {len(part.joints)}",
        )
    if part.grippers and part.to != GRIPPER:
        yield ".grippers", "conflict", f"only to {GRIPPER}, got it to {part.to}"
    if part.to == GRIPPER and count != (len(part.grippers) or max(1, min(count, len(resolved.open_m)))):
        many = len(part.grippers) or len(resolved.open_m)
        yield ".take", "wrong_length", f"expected {many} columns for {GRIPPER}, got {count}"
    if part.to == GRIPPER and part.mode != ABSOLUTE:
        yield ".mode", "conflict", f"a gripper is ordered {ABSOLUTE}, got {part.mode}"
    if part.to == GRIPPER and part.gripper == FINGER_PAIR:
        yield ".gripper", "conflict", "a gripper is ordered one width, not a pair of fingers"
    if part.gripper and part.to != GRIPPER:
        yield ".gripper", "conflict", f"only to {GRIPPER}, got it to {part.to}"
    if part.mode == VELOCITY and actions.step_s is None:
        yield ".mode", "missing", "a velocity needs the time of a row, `actions.step_s`"
    if part.zeros and part.mode != ABSOLUTE:
        yield ".zeros", "conflict", f"only with mode {ABSOLUTE}, got {part.mode}"
    if part.zeros and (part.to == TOOL_ROTATION or part.gripper not in (AS_IS, WIDTH)):
        yield ".zeros", "conflict", "only of joints, places and widths"
    yield from _lists(part, count)


def _targets(resolved: Resolved) -> Iterator[Problem]:
    """Each joint is ordered once, by the joints or by the tool of its arm; and so is each gripper."""
    actions = resolved.spec.actions
    assert actions is not None
    to: dict[str, list[ActionPart]] = {}
    for part in actions.parts:
        to.setdefault(part.to, []).append(part)
    yield from _gripper_targets(resolved, to.get(GRIPPER, ()))
    arms = {name: [part.arm for part in to.get(name, ())] for name in (TOOL_POSITION, TOOL_ROTATION)}
    for name, given in arms.items():
        for arm, count in Counter(given).items():
            if count > 1:
                yield "actions.parts", "conflict", f"{count} parts order the {name}{_of(arm)}; expected one"
    if alone := [arm for arm in arms[TOOL_ROTATION] if arm not in arms[TOOL_POSITION]]:
        words = f"{TOOL_ROTATION}{_of(alone[0])} needs a part to {TOOL_POSITION} beside it"
        yield "actions.parts", "missing", words
    if arms[TOOL_POSITION] and (
        still := [one for one in resolved.arm_names if one not in arms[TOOL_POSITION]]
    ):
        yield (
            "actions.parts",
            "missing",
            f"nothing orders the tool{_of(still[0])}; expected a part to {TOOL_POSITION}",
        )
    if JOINTS in to and TOOL_POSITION in to:
        yield "actions.parts", "conflict", f"expected parts to {JOINTS} or to {TOOL_POSITION}, got both"
    if JOINTS not in to and TOOL_POSITION not in to:
        yield (
            "actions.parts",
            "missing",
            f"nothing moves the arm; expected a part to {JOINTS} or {TOOL_POSITION}",
        )
    ordered = Counter(joint for part in to.get(JOINTS, ()) for joint in joints_of(part))
    if twice := [str(joint) for joint, count in ordered.items() if count > 1]:
        yield "actions.parts", "conflict", f"joints {', '.join(twice)} are ordered more than once"
    if ordered:
        every = range(resolved.joints or max(ordered) + 1)
        if left := [joint for joint in every if joint not in ordered]:
            names = [resolved.names[one] if resolved.names else str(one) for one in left]
            yield "actions.parts", "missing", f"the robot's joints {', '.join(names)} are ordered by nothing"
        if too_many := [str(joint) for joint in ordered if joint not in every]:
            words = f"the robot has joints 0 to {len(every) - 1}, got {', '.join(too_many)}"
            yield "actions.parts", "out_of_range", words


def _of(arm: str) -> str:
    return f" of arm {arm}" if arm else ""


def _gripper_targets(resolved: Resolved, parts: Sequence[ActionPart]) -> Iterator[Problem]:
    """Each gripper is ordered once; all of them, or none."""
    ordered = Counter(one for part in parts for one in grippers_of(part))
    if any(count > 1 for count in ordered.values()):
        yield (
            "actions.parts",
            "conflict",
            f"{len(parts)} parts order the {GRIPPER}; expected one for each gripper",
        )
    every = range(grippers(resolved))
    if ordered and (idle := [str(one) for one in every if one not in ordered]):
        yield "actions.parts", "missing", f"grippers {', '.join(idle)} are ordered by nothing"
    if too_many := [str(one) for one in ordered if one not in every]:
        words = f"the robot has grippers 0 to {len(every) - 1}, got {', '.join(too_many)}"
        yield "actions.parts", "out_of_range", words


def _prompt(template: str) -> Iterator[Problem]:
    try:
        fields = [name for _, name, _, _ in Formatter().parse(template) if name is not None]
    except ValueError as error:
        yield "prompt", "syntax", f"{error}; write {{{{ for a brace"
        return
    for name in fields:
        if name not in PROMPT_FIELDS:
            words = f"no field {{{name}}}{nearest(name, PROMPT_FIELDS)}; there are {', '.join(PROMPT_FIELDS)}"
            yield "prompt", "unknown_name", words
            return
    try:
        template.format_map(dict.fromkeys(PROMPT_FIELDS, ""))
    except (ValueError, LookupError) as error:
        yield "prompt", "syntax", f"{error}; expected fields without a format, such as {{prompt}}"


def _normalisation(spec: Adapter) -> Iterator[Problem]:
    norm = spec.normalisation
    if norm is None:
        return
    known = {"state": list(spec.state), "actions": list(spec.actions.columns) if spec.actions else []}
    for section, given in (("state", norm.state), ("actions", norm.actions)):
        for key in given:
            if known[section] and key not in known[section]:
                words = f"the adapter has no {section} {key!r}{nearest(key, known[section])}"
                yield f"normalisation.{section}.{key}", "unknown_name", words
    try:
        _, actions = load_scales(norm)
    except ConfigError as error:
        for one in error.problems:
            path = f"normalisation.{one.path}" if one.path else "normalisation.file"
            yield path, one.cause, f"{error.source}: {one.words}"
        return
    for key, scale in actions.items():
        names = spec.actions.columns.get(key, ()) if spec.actions else ()
        if len(names) > len(scale.zero):
            words = f"its statistics are of {len(scale.zero)} values, the model answers {len(names)} columns"
            yield f"normalisation.actions.{key}", "wrong_length", words
