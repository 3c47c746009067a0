"""From a client's observation to that of the task's robot, and from the model's actions back. Pure.

Everything that does not fit is named in one error: what the client sends and nothing takes, what it does not send and
the robot must have, and what is of another form.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from rosa_contract.config.conventions import from_unit, gripper_from, gripper_in, in_unit
from rosa_contract.config.frontends import ActionPart, Frontend, ImageSource, StatePart
from rosa_contract.errors import CausedError
from rosa_contract.wire.images import MAX_SIDE_PX
from rosa_contract.wire.messages import CameraInfo, Hello
from rosa_server.models.adapters.pictures import fitted
from rosa_server.models.remote.arrays import Array
from rosa_server.serving.core.sessions.fit import Needs

Rgb = npt.NDArray[np.uint8]
MAX_PROMPT_CHARS = 4096


class MappingError(CausedError):
    """An observation, or an answer, does not fit the frontend's mapping."""

    CAUSES: ClassVar = {
        "unmapped": "names that are sent and not mapped, or mapped and not sent",
        "wrong_value": "a value of another type or shape than the mapping says",
        "wrong_actions": "the model's actions have fewer columns than the mapping names",
    }


class ClientMapping:
    """The mapping of one frontend."""

    def __init__(self, frontend: Frontend) -> None:
        self.spec = frontend.filled()
        keys = {source.key for source in self.spec.images.values()}
        keys |= {part.key for parts in self.spec.state.values() for part in parts}
        self._needed = keys
        self._known = keys | {self.spec.prompt_key} - {""} | set(self.spec.ignore)

    def observation(self, sent: Mapping[Any, Any]) -> tuple[dict[str, Array], str]:
        """(camera -> (height, width, 3) uint8 RGB and state -> (length,) float32, prompt). Raises `MappingError`."""
        self._check_names(sent)
        problems: list[str] = []
        seen: dict[str, Array] = {}
        for camera, source in self.spec.images.items():
            try:
                seen[camera] = picture(self._frame(sent[source.key], source), source)
            except MappingError as error:
                problems.append(f"{source.key}: {error}")
        for name, parts in self.spec.state.items():
            values = []
            for part in parts:
                try:
                    values.append(state_values(sent[part.key], part))
                except MappingError as error:
                    problems.append(f"{part.key}: {error}")
            seen[name] = np.concatenate(values) if values else np.zeros(0, np.float32)
        prompt: Any = sent.get(self.spec.prompt_key, "") if self.spec.prompt_key else ""
        if isinstance(prompt, list | tuple) and len(prompt) == 1:
            prompt = prompt[0]
        if not isinstance(prompt, str) or len(prompt) > MAX_PROMPT_CHARS:
            problems.append(
                f"{self.spec.prompt_key}: expected a text of at most {MAX_PROMPT_CHARS} characters"
            )
        if problems:
            raise MappingError("wrong_value", "; ".join(problems))
        return seen, str(prompt) or self.spec.prompt

    def actions(self, rows: Array, seen: Mapping[str, Array]) -> dict[str, Array]:
        """The client's arrays, each (horizon, values) float32, from the model's (horizon, values)."""
        return {
            name: np.concatenate([client_columns(rows, part, seen) for part in parts], axis=1)
            for name, parts in self.spec.actions.items()
        }

    def hello(self, name: str) -> Hello:
        """How a client's robot introduces itself."""
        cameras = {
            key: CameraInfo(height=one.height, width=one.width, encoding="rgb8")
            for key, one in self.spec.images.items()
        }
        state = {key: sum(len(part.taken) for part in parts) for key, parts in self.spec.state.items()}
        return Hello(name, self.spec.task, cameras, state)

    def misfits(self, needs: Mapping[str, Needs]) -> list[str]:
        """What the task's models (model -> needs) take and nothing maps, and what is mapped and none takes."""
        hello, taken, found = self.hello(""), set[str](), []
        for model, one in needs.items():
            taken |= one.images.keys() | one.state.keys()
            for camera, size in one.images.items():
                have = hello.cameras.get(camera)
                got = "nothing is mapped to it" if have is None else f"mapped as {have.width}x{have.height}"
                if have is None or (have.height, have.width) != tuple(size):
                    found.append(f"{model} takes camera {camera!r} as {size[1]}x{size[0]} px; {got}")
            for name, length in one.state.items():
                if hello.state.get(name) != length:
                    got = (
                        f"mapped with {hello.state[name]}"
                        if name in hello.state
                        else "nothing is mapped to it"
                    )
                    found.append(f"{model} takes state {name!r} of {length} values; {got}")
        unused = sorted((hello.cameras.keys() | hello.state.keys()) - taken)
        return found + ([f"no model of {self.spec.task} takes {', '.join(unused)}"] if unused else [])

    def deltas(self, key: str) -> list[int]:
        """The frames that a client sends of one image: steps before now, the oldest first."""
        return sorted({source.frame for source in self.spec.images.values() if source.key == key})

    def _frame(self, value: Any, source: ImageSource) -> Any:
        """One of a history, (frames, height, width, 3), as `deltas` says; a single image as it is."""
        if not isinstance(value, np.ndarray) or value.ndim != 4:
            return value
        deltas = self.deltas(source.key)
        if len(value) != len(deltas):
            raise MappingError("wrong_value", f"expected frames {deltas}, got {len(value)} frames")
        return value[deltas.index(source.frame)]

    def _check_names(self, sent: Mapping[Any, Any]) -> None:
        missing = sorted(self._needed - sent.keys())
        unknown = sorted(f"{key!s:.60}" for key in sent if key not in self._known)
        words = [f"the client does not send {', '.join(missing)}"] if missing else []
        if unknown:
            words.append(f"nothing takes {', '.join(unknown[:20])} (list it under `ignore`, or map it)")
        if words:
            raise MappingError("unmapped", "; ".join(words))


def picture(value: Any, source: ImageSource) -> Rgb:
    """A client's image, uint8 (height, width, 3) RGB, in the size that the models take."""
    if not isinstance(value, np.ndarray) or value.dtype != np.uint8 or value.ndim != 3 or value.shape[2] != 3:
        raise MappingError("wrong_value", f"expected uint8 (height, width, 3), got {described(value)}")
    height, width = value.shape[:2]
    if not (0 < height <= MAX_SIDE_PX and 0 < width <= MAX_SIDE_PX):
        raise MappingError("wrong_value", f"expected sides of 1 to {MAX_SIDE_PX} px, got {width}x{height}")
    try:
        return fitted(value, source.height, source.width, source.fit)
    except ValueError:
        wanted = f"{source.width}x{source.height} px (width x height)"
        raise MappingError("wrong_value", f"expected {wanted}, got {width}x{height}; `fit: exact`") from None


def state_values(value: Any, part: StatePart) -> Array:
    """Values of a robot's state, (length,) float32, in rad and m."""
    try:
        array = np.asarray(value) if isinstance(value, np.ndarray | int | float | list) else None
    except ValueError:  # lists of different lengths
        array = None
    if array is None or array.dtype.kind not in "fiu" or array.ndim > 1:
        raise MappingError("wrong_value", f"expected numbers (length,), got {described(value)}")
    array = np.atleast_1d(array)
    if max(part.taken) >= len(array) or (not part.columns and part.count != len(array)):
        wanted = f"columns {list(part.columns)}" if part.columns else f"{part.count} values"
        raise MappingError("wrong_value", f"expected {wanted}, got {len(array)} values")
    taken = array[list(part.taken)].astype(np.float32)
    if not np.isfinite(taken).all():
        raise MappingError("wrong_value", "expected finite numbers")
    if part.gripper:
        return gripper_from(part.gripper, taken, 0.0, part.open_m).astype(np.float32)
    return from_unit(taken, part.unit).astype(np.float32)


def client_columns(rows: Array, part: ActionPart, seen: Mapping[str, Array]) -> Array:
    """Columns of the model's actions as the client has them, (horizon, values) float32."""
    if rows.ndim != 2 or max(part.columns) >= rows.shape[1]:
        wanted = f"column {max(part.columns)}"
        raise MappingError(
            "wrong_actions", f"the mapping names {wanted}; the model's actions are {rows.shape}"
        )
    values: Array = rows[:, list(part.columns)].astype(np.float64)
    if part.gripper:
        values = gripper_in(part.gripper, values, 0.0, part.open_m)
    else:
        if part.relative_to:
            values = np.diff(values, axis=0, prepend=np.atleast_2d(seen[part.relative_to]))
        values = in_unit(values, part.unit)
    return (values * part.scale).astype(np.float32)


def described(value: Any) -> str:
    """What came, for an error: short, whatever it is."""
    return f"{value.dtype} {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__
