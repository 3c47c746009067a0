"""LeRobot's observations as a ROSA robot's, and ROSA's actions as LeRobot's. Pure NumPy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from rosa_contract.config.conventions import UNITS, from_unit, in_unit
from rosa_contract.wire.overlap import MAX_ROWS, Overlap

Values = npt.NDArray[Any]
IMAGES, IMAGE, STATE, TASK = "observation.images.", "observation.image", "observation.state", "task"
JOINTS = "joint_position"
MIN_COLUMNS = 2  # of an overlap, on the wire


@dataclass(frozen=True)
class NamesAndUnits:
    """How names and units go together; README.md has the meaning of each."""

    images: Mapping[str, str] = field(default_factory=dict)
    state: Mapping[str, int] = field(default_factory=dict)
    joint_unit: str = "rad"
    prompt: str = ""

    def __post_init__(self) -> None:
        if self.joint_unit not in UNITS or not self.joint_unit:
            known = ", ".join(name for name in UNITS if name)
            raise ValueError(f"joint_unit: expected one of {known}, got {self.joint_unit!r}")

    def observations(self, batch: Mapping[str, Any]) -> list[dict[str, Values]]:
        """One observation per robot of a batch: images `(robots, 3, height, width)`, 0 to 1 or uint8; the state
        `(robots, values)`. Raises `ValueError` that names what is missing, or of another form."""
        pictures = {camera: _pictures(name, batch[name]) for name, camera in self._cameras(batch).items()}
        states = self._states(batch)
        named = {**pictures, **states}
        if not named:
            raise ValueError(f"the batch has neither images nor {STATE}: {', '.join(batch)}")
        sizes = {name: len(values) for name, values in named.items()}
        if len(set(sizes.values())) != 1:
            raise ValueError(f"arrays of different batch sizes: {sizes}")
        count = next(iter(sizes.values()))
        return [{name: values[number] for name, values in named.items()} for number in range(count)]

    def prompts(self, batch: Mapping[str, Any], count: int) -> dict[int, str]:
        """What each robot is to do."""
        told = self.prompt or batch.get(TASK) or ""
        texts = [told] * count if isinstance(told, str) else list(told)
        if len(texts) != count or not all(isinstance(text, str) for text in texts):
            raise ValueError(f"{TASK}: expected a text, or {count} of them, got {told!r:.100}")
        return dict(enumerate(texts))

    def actions(self, rows: Values) -> npt.NDArray[np.float32]:
        """The server's `(..., values)`, in rad and m, as LeRobot has them."""
        return self._joints(rows, in_unit)

    def overlap(self, left: Values | None, delay: int | None, step_s: float) -> Overlap | None:
        """What is left of the chunk `(steps, values)`, of which `delay` steps play before the answer, as LeRobot's RTC
        tells it; None where there is nothing. Rows of zeros at the end are how it fills up what is short."""
        if left is None:
            return None
        kept = np.asarray(left, np.float32)[:MAX_ROWS]
        kept = kept[: int(np.max(np.nonzero(np.any(kept != 0, axis=1))[0], initial=-1)) + 1]
        if not len(kept) or kept.shape[1] < MIN_COLUMNS:
            return None
        if step_s <= 0:
            raise ValueError(
                "step_s: name the seconds from action to action (1 / fps) for real-time chunking"
            )
        frozen = min(max(1, delay or 0), len(kept))
        return Overlap(self._joints(kept, from_unit), frozen, step_s)

    def _cameras(self, batch: Mapping[str, Any]) -> dict[str, str]:
        there = [name for name in batch if name == IMAGE or name.startswith(IMAGES)]
        if not self.images:
            return {name: name.removeprefix(IMAGES).removeprefix("observation.") for name in there}
        wanted = {self._full(name): camera for name, camera in self.images.items()}
        if missing := sorted(wanted.keys() - set(there)):
            raise ValueError(
                f"images: {', '.join(missing)} not in the batch, which has {', '.join(there) or 'none'}"
            )
        return wanted

    @staticmethod
    def _full(name: str) -> str:
        return name if name.startswith("observation.") else IMAGES + name

    def _states(self, batch: Mapping[str, Any]) -> dict[str, Values]:
        if STATE not in batch:
            if self.state:
                raise ValueError(f"state: {STATE} is not in the batch")
            return {}
        values = np.asarray(batch[STATE], np.float32)
        if values.ndim != 2:
            raise ValueError(
                f"{STATE}: expected (robots, values), got {values.shape}; histories are not supported"
            )
        lengths = self.state or {JOINTS: values.shape[1]}
        if sum(lengths.values()) != values.shape[1]:
            told = ", ".join(f"{name}: {length}" for name, length in lengths.items())
            raise ValueError(f"state: {told} does not add up to the {values.shape[1]} values of {STATE}")
        parts = np.split(values, np.cumsum([*lengths.values()])[:-1], axis=1)
        named = dict(zip(lengths, parts, strict=True))
        if JOINTS in named:
            named[JOINTS] = from_unit(named[JOINTS], self.joint_unit).astype(np.float32)
        return named

    def _joints(self, rows: Values, convert: Any) -> npt.NDArray[np.float32]:
        """The first columns, which are joints, in the other unit; those after them as they are."""
        joints = self.state.get(JOINTS, 0) if self.state else rows.shape[-1]
        changed = np.array(rows, np.float32)
        changed[..., :joints] = convert(changed[..., :joints], self.joint_unit)
        return changed


def _pictures(name: str, values: Any) -> npt.NDArray[np.uint8]:
    """`(robots, 3, height, width)` -> `(robots, height, width, 3)` uint8."""
    array = np.asarray(values)
    if array.ndim != 4 or array.shape[1] != 3:
        raise ValueError(f"{name}: expected (robots, 3, height, width), got {array.shape}")
    if array.dtype != np.uint8:
        array = np.clip(np.rint(array.astype(np.float32) * 255), 0, 255).astype(np.uint8)
    return np.ascontiguousarray(array.transpose(0, 2, 3, 1))
