"""What a robot sends in the words of its model, and what the model answers in those of the robot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rosa_contract.config.adapter import (
    ABSOLUTE,
    GRIPPER,
    JOINTS,
    NOTHING,
    ROBOT,
    STEP_DELTA,
    TOOL_POSITION,
    TOOL_ROTATION,
    VELOCITY,
    ActionPart,
    StatePart,
)
from rosa_contract.config.conventions import (
    OF_RANGE,
    WIDTH,
    from_range,
    from_unit,
    gripper_from,
    gripper_in,
    in_range,
    in_unit,
)
from rosa_contract.config.spaces import ACTIONS, SPACES, Space
from rosa_contract.kinematics.moves import Move, placed, tool_poses
from rosa_contract.rotations import SIZES, matrix, written
from rosa_server.models.adapters.frames import between
from rosa_server.models.adapters.normalising import Scale, load_scales
from rosa_server.models.adapters.parts import (
    GRIPPER_STATE,
    JOINT_STATE,
    grippers_of,
    joints_of,
    space_of,
)
from rosa_server.models.adapters.pictures import History, prepared
from rosa_server.models.adapters.resolving import Resolved
from rosa_server.models.backend import (
    InputSpec,
    ModelInput,
    ModelOutput,
)
from rosa_server.models.stacking import Place, nowhere

Array = NDArray[np.float64]


class AnswerError(RuntimeError):
    """The model answered what its adapter cannot carry out."""


class Translator:
    """Inputs and outputs of one model, there and back. Pure but for the robots' earlier pictures."""

    def __init__(self, resolved: Resolved, model: InputSpec) -> None:
        """`model`: what the model takes; empty for one that takes anything."""
        self._resolved, self._spec, self._model = resolved, resolved.spec, model
        self._arms = resolved.kinematics()
        self._frames = {one.name: between(resolved.spec, one.chain) for one in resolved.arms}
        norm = self._spec.normalisation
        self._scales: tuple[Mapping[str, Scale], Mapping[str, Scale]] = (
            load_scales(norm) if norm else ({}, {})
        )
        self._history = History()

    @property
    def remembers(self) -> bool:
        """Whether what the model is given depends on what came before."""
        return any(camera.history > 1 for camera in self._spec.cameras.values())

    def to_model(self, now_s: float, one: ModelInput, place: Place = nowhere) -> ModelInput:
        """What the model is given. Raises `ValueError` for an input that it cannot be made of.

        `place`: where its pictures go; by default each into its own array.
        """
        images = {key: self._picture(now_s, key, one, place) for key in self._spec.cameras} or one.images
        state = {key: self._state(key, parts, one) for key, parts in self._spec.state.items()} or one.state
        overlap = None if self._spec.actions is not None else one.overlap
        return replace(one, prompt=self._prompt(one), images=images, state=state, overlap=overlap)

    def from_model(self, one: ModelInput, output: ModelOutput) -> ModelOutput:
        """What the robot plays. `one`: its own input. Raises `AnswerError` for an answer that cannot be."""
        actions = self._spec.actions
        if actions is None or (
            one.component != "system1" and not output.arrays.keys() & actions.columns.keys()
        ):
            return output
        columns = self._columns(output.arrays)
        rows = len(next(iter(columns.values())))
        rows = min(rows, actions.horizon or rows)
        columns = {name: values[:rows] for name, values in columns.items()}
        space = space_of(actions) if actions.resolved_by == ROBOT else None
        chunk = self._chunk(one, columns, rows) if space is None else self._plain(SPACES[space], columns)
        arrays: dict[str, Any] = {space or ACTIONS: chunk.astype(np.float32)}
        if actions.step_s is not None:
            arrays["step_s"] = np.array([actions.step_s], np.float32)
        elif "step_s" in output.arrays:
            arrays["step_s"] = output.arrays["step_s"]
        rest = {key: value for key, value in output.arrays.items() if key not in actions.columns}
        updates = None if output.updates is None else output.updates[:, :rows]
        return replace(output, arrays={**rest, **arrays}, updates=updates)

    def _picture(self, now_s: float, key: str, one: ModelInput, place: Place) -> NDArray[np.uint8]:
        spec = self._spec.cameras[key]
        raw = one.images.get(spec.camera)
        if raw is None:
            raise ValueError(
                f"camera {spec.camera!r} is missing; there are {', '.join(one.images) or 'none'}"
            )
        own = self._model.images.get(key, (0, 0))
        height, width = spec.height or own[0], spec.width or own[1]
        try:
            picture = prepared(raw, height, width, spec.fit, spec.turn_deg, spec.colours)
        except ValueError as error:
            raise ValueError(f"camera {spec.camera!r}: {error}") from None
        if spec.history == 1:
            row = place(key, picture.shape)
            if row is None:
                return picture
            np.copyto(row, picture)
            return row
        past = self._history.with_past(now_s, (one.robot, one.component, key), raw, picture, spec.history)
        return np.stack(past)

    def _state(self, key: str, parts: Sequence[StatePart], one: ModelInput) -> NDArray[np.float32]:
        values = np.concatenate([self._part(part, one) for part in parts])
        scale = self._scales[0].get(key)
        return (scale.normalised(values) if scale else values).astype(np.float32)

    def _part(self, part: StatePart, one: ModelInput) -> Array:
        if not part.of:
            return np.array(part.values, np.float64)
        values = self._measured(part, one)
        if part.take:
            if max(part.take) >= len(values):
                raise ValueError(f"state {part.of!r}: expected value {max(part.take)}, it has {len(values)}")
            values = values[list(part.take)]
        if part.gripper not in ("", WIDTH):
            return values
        if part.unit == OF_RANGE:
            joints = part.take or tuple(range(len(values)))
            if max(joints) >= len(self._resolved.min_rad):
                count = len(self._resolved.min_rad)
                raise ValueError(f"state {part.of!r}: expected {count} values, got {len(values)}")
            ends = self._ends(joints)
            return in_range(values, *ends) * (np.array(part.signs) if part.signs else 1.0)
        shifted = values - np.array(part.zeros) if part.zeros else values
        signed = shifted * np.array(part.signs) if part.signs else shifted
        return in_unit(signed, part.unit)

    def _measured(self, part: StatePart, one: ModelInput) -> Array:
        if part.of in (TOOL_POSITION, TOOL_ROTATION):
            position, rotation = self._tool(one, part.arm)
            return position if part.of == TOOL_POSITION else written(part.rotation, rotation)
        values = _state_of(one, part.of)
        if part.of == GRIPPER_STATE and part.gripper:
            ranges = [self._range(number) for number in range(len(values))]
            each = [gripper_in(part.gripper, values[i : i + 1], *ends) for i, ends in enumerate(ranges)]
            return np.concatenate(each)
        return values

    def _tool(self, one: ModelInput, arm: str) -> tuple[Array, Array]:
        if arm not in self._arms:
            raise ValueError("the tool's place needs a robot file with a chain")
        mine, kinematics = self._arms[arm]
        joints, count = _state_of(one, JOINT_STATE), len(self._resolved.min_rad)
        if len(joints) != count:
            raise ValueError(f"state {JOINT_STATE!r}: expected {count} values, got {len(joints)}")
        return self._frames[arm].to_model(*kinematics.pose(joints[mine]))

    def _ends(self, joints: Sequence[int]) -> tuple[Array, Array]:
        """Lowest and highest position of these joints, rad."""
        low, high = (
            np.array(ends)[list(joints)] for ends in (self._resolved.min_rad, self._resolved.max_rad)
        )
        return low, high

    def _prompt(self, one: ModelInput) -> str:
        template = self._spec.prompt.replace("\\n", "\n")
        named = {"prompt": one.prompt, "prompt_lower": one.prompt.lower(), "robot": one.robot}
        return template.format_map({**named, "component": one.component})

    def _columns(self, arrays: Mapping[str, Any]) -> dict[str, Array]:
        """Every column of the answer `(rows,)` by its name, un-normalised."""
        actions = self._spec.actions
        assert actions is not None
        columns: dict[str, Array] = {}
        for key, names in actions.columns.items():
            if key not in arrays:
                raise AnswerError(
                    f"the model answered no {key!r}; it answered {', '.join(arrays) or 'nothing'}"
                )
            values = np.asarray(arrays[key], np.float64)
            if values.ndim == 1:  # rows of one column, or one row
                values = values[:, None] if len(names) == 1 else values[None]
            if values.ndim != 2 or values.shape[1] != len(names) or not len(values):
                raise AnswerError(
                    f"{key}: expected (rows, {len(names)}) for {', '.join(names)}, the model answered {values.shape}"
                )
            if columns and len(values) != len(next(iter(columns.values()))):
                raise AnswerError(f"{key}: {len(values)} rows, the arrays before it have another number")
            scale = self._scales[1].get(key)
            restored = scale.restored(values) if scale else values
            columns |= {name: restored[:, index] for index, name in enumerate(names)}
        return columns

    def _chunk(self, one: ModelInput, columns: Mapping[str, Array], rows: int) -> Array:
        """`(rows, joints + grippers)`."""
        actions = self._spec.actions
        assert actions is not None
        if any(part.to == TOOL_POSITION for part in actions.parts):
            chunk = [self._reach(one, columns, rows)]
        else:
            chunk = [self._joints(one, columns, rows)]
        widths = self._widths(columns)
        if widths is not None:
            chunk.append(widths)
        elif GRIPPER_STATE in one.state:  # the model orders none: it stays
            chunk.append(np.tile(_state_of(one, GRIPPER_STATE), (rows, 1)))
        return np.concatenate(chunk, axis=1)

    def _widths(self, columns: Mapping[str, Array]) -> Array | None:
        """What the model orders the grippers `(rows, grippers)`, m; None: nothing."""
        actions = self._spec.actions
        assert actions is not None
        found: dict[int, Array] = {}
        for part in actions.parts:
            if part.to != GRIPPER:
                continue
            given = np.stack([columns[name] for name in part.take], axis=1)
            given = _absolute(part, self._scaled(part, given))
            for index, number in enumerate(grippers_of(part)):
                own = given[:, index : index + 1]
                found[number] = gripper_from(part.gripper or WIDTH, own, *self._range(number), part.binary)
        return np.concatenate([found[one] for one in sorted(found)], axis=1) if found else None

    def _range(self, number: int) -> tuple[float, float]:
        """A gripper's closed and open width; without a robot file all are alike."""
        body = self._resolved
        at = min(number, len(body.open_m) - 1)
        return body.closed_m[at], body.open_m[at]

    def _plain(self, space: Space, columns: Mapping[str, Array]) -> Array:
        """`(rows, columns)` of a space that the robot resolves: in rad and m, rotations as vectors, in its order."""
        actions = self._spec.actions
        assert actions is not None
        tools: dict[str, dict[str, Array]] = {}
        joints: dict[int, Array] = {}
        for part in actions.parts:
            if part.to in (NOTHING, GRIPPER):
                continue
            given = self._scaled(part, np.stack([columns[name] for name in part.take], axis=1))
            if part.to == TOOL_ROTATION:
                if part.rotation != "axis_angle":
                    # As in `_reach`: angles of a second would be those of less than half a turn.
                    of_s = (actions.step_s or 0.0) if _turns_on(part) else 1.0
                    given = written("axis_angle", matrix(part.rotation, given * of_s)) / of_s
                tools.setdefault(part.arm, {})[TOOL_ROTATION] = given
            elif part.to == TOOL_POSITION:
                tools.setdefault(part.arm, {})[TOOL_POSITION] = _absolute(part, given)
            else:
                joints |= dict(zip(joints_of(part), given.T, strict=True))
        if space.to == JOINTS:
            ordered = [np.stack([joints[one] for one in sorted(joints)], axis=1)]
        else:
            ordered = []
            for arm in self._resolved.arm_names or tools:
                place = tools[arm][TOOL_POSITION]
                ordered += [place, tools[arm].get(TOOL_ROTATION, np.zeros_like(place))]
        widths = self._widths(columns)
        if widths is not None:
            low, high = np.array([self._range(one) for one in range(widths.shape[1])]).T
            ordered.append((widths - low) / (high - low))
        return np.concatenate(ordered, axis=1)

    def _scaled(self, part: ActionPart, values: Array) -> Array:
        if part.clip is not None:
            values = np.clip(values, -part.clip, part.clip)
        if part.signs:
            values = values * np.array(part.signs)
        if part.unit == OF_RANGE:
            low, high = self._ends(joints_of(part))
            return from_range(values, low, high) if part.mode == ABSOLUTE else values * (high - low) / 200.0
        return from_unit(values, part.unit) * part.scale

    def _joints(self, one: ModelInput, columns: Mapping[str, Array], rows: int) -> Array:
        actions = self._spec.actions
        assert actions is not None
        here = _state_of(one, JOINT_STATE)
        chunk = np.tile(here, (rows, 1))
        for part in actions.parts:
            if part.to != JOINTS:
                continue
            joints = list(joints_of(part))
            if max(joints) >= len(here):
                raise ValueError(f"state {JOINT_STATE!r}: expected value {max(joints)}, it has {len(here)}")
            values = self._scaled(part, np.stack([columns[name] for name in part.take], axis=1))
            move = Move(_absolute(part, values), part.mode)
            chunk[:, joints] = placed(move, here[joints], actions.step_s or 0.0)
        return chunk

    def _reach(self, one: ModelInput, columns: Mapping[str, Array], rows: int) -> Array:
        """Joint positions `(rows, joints)` that bring the tool of each arm where the model wants it."""
        actions = self._spec.actions
        assert actions is not None
        step_s, here = actions.step_s or 0.0, _state_of(one, JOINT_STATE)
        given = {
            (part.to, part.arm): (part, np.stack([columns[name] for name in part.take], axis=1))
            for part in actions.parts
            if part.to in (TOOL_POSITION, TOOL_ROTATION)
        }
        chunk = np.tile(here, (rows, 1))
        for name, (mine, arm) in self._arms.items():
            pose = self._tool(one, name)  # raises where the state does not fit the arm
            part, values = given[TOOL_POSITION, name]
            place = Move(_absolute(part, self._scaled(part, values)), part.mode, part.frame)
            turning = None
            if (TOOL_ROTATION, name) in given:
                part, values = given[TOOL_ROTATION, name]
                turns, mode = self._scaled(part, values), part.mode
                if _turns_on(part):
                    turns, mode = turns * step_s, STEP_DELTA
                turning = Move(matrix(part.rotation, turns), mode, part.frame)
            poses = self._frames[name].to_robot(*tool_poses(*pose, place, turning, step_s))
            chunk[:, mine] = arm.along(here[mine], *poses)
        return chunk


def _turns_on(part: ActionPart) -> bool:
    """Whether its rotations are angles of a second; a rotation knows no more than half a turn."""
    return part.mode == VELOCITY and SIZES[part.rotation] == 3


def _absolute(part: ActionPart, values: Array) -> Array:
    """With the places at which the model's values are 0."""
    return values + np.array(part.zeros) if part.zeros else values


def _state_of(one: ModelInput, name: str) -> Array:
    if name not in one.state:
        raise ValueError(f"state {name!r} is missing; there are {', '.join(one.state) or 'none'}")
    values = np.asarray(one.state[name], np.float64).ravel()
    if not np.isfinite(values).all():
        raise ValueError(f"state {name!r}: expected finite numbers, got {values}")
    return values
