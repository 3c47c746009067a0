"""A model that gives recorded answers: for tests, and to replay a run without its model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

import numpy as np
from numpy.typing import NDArray

from rosa_contract.errors import ContractError
from rosa_server.models.backend import InputSpec, ModelInput, ModelOutput, check_batch


class ReplayError(ContractError):
    """The recording is missing or holds no usable output."""


class ReplayBackend:
    """Gives the recorded outputs in order, and starts over at the end.

    `recording` is an `.npz` file or a folder of them (read in the order of their names, never unpickled). An
    array `actions` of shape (steps, horizon, dof) or (horizon, dof) holds action chunks; an array `verdict` or `text`
    of strings holds what the other components answer.
    """

    def __init__(
        self,
        recording: str,
        images: Mapping[str, Sequence[int]] | None = None,
        state: Mapping[str, int] | None = None,
        max_batch: int = 32,
    ) -> None:
        self.input_spec = InputSpec(
            {name: (h, w) for name, (h, w) in (images or {}).items()}, dict(state or {})
        )
        self.max_batch = max_batch
        self.memory_mb = 0.0
        self._path = Path(recording)
        self._outputs: list[ModelOutput] = []
        self._next = 0

    def load(self) -> None:
        """Read the recording. Raises `ReplayError` naming the file."""
        files = sorted(self._path.glob("*.npz")) if self._path.is_dir() else [self._path]
        self._outputs = [output for file in files for output in _read(file)]
        if not self._outputs:
            raise ReplayError(
                f"{self._path}: expected .npz files with `actions`, `verdict` or `text`, found none"
            )
        self.memory_mb = sum(a.nbytes for output in self._outputs for a in output.arrays.values()) / 1e6

    def warm_up(self) -> None:
        """Nothing to do."""

    def infer(self, batch: Sequence[ModelInput]) -> list[ModelOutput]:
        check_batch(self.input_spec, batch, self.max_batch)
        if not self._outputs:
            raise RuntimeError("load() comes before infer()")
        answers = []
        for _ in batch:
            answers.append(self._outputs[self._next])
            self._next = (self._next + 1) % len(self._outputs)
        return answers

    def close(self) -> None:
        self._outputs = []


def _read(path: Path) -> list[ModelOutput]:
    try:
        with path.open("rb") as file:
            if not is_zipfile(file):  # NumPy would take it for a pickle, and say how to load that
                raise ValueError("expected an archive of numpy.savez; it is damaged, or something else")
            file.seek(0)
            with np.load(file, allow_pickle=False) as data:
                arrays = {name: data[name] for name in data.files if name in ("actions", "verdict", "text")}
    except Exception as error:  # of NumPy, zipfile and zlib, whatever a damaged file makes of them
        raise ReplayError(f"{path}: {error}") from None
    if no_array := [name for name, one in arrays.items() if not isinstance(one, np.ndarray)]:
        raise ReplayError(
            f"{path}: {no_array[0]}: expected an array of NumPy, it is damaged or something else"
        )
    outputs: list[ModelOutput] = []
    if "actions" in arrays:
        actions = arrays["actions"]
        if actions.ndim not in (2, 3) or actions.dtype.kind != "f" or not _fits(actions):
            raise ReplayError(
                f"{path}: actions: expected finite (steps, horizon, dof), got {actions.dtype} {actions.shape}"
            )
        steps = actions[None] if actions.ndim == 2 else actions
        outputs += [ModelOutput({"actions": step.astype(np.float32)}) for step in steps]
    outputs += [ModelOutput(verdict=str(one)) for one in arrays.get("verdict", np.array([])).ravel()]
    outputs += [ModelOutput(text=str(one)) for one in arrays.get("text", np.array([])).ravel()]
    return outputs


def _fits(actions: NDArray[Any]) -> bool:
    """Whether there are values, all of them finite as they are sent."""
    return actions.size > 0 and bool((np.abs(actions) <= np.finfo(np.float32).max).all())
