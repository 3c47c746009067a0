"""What every policy server behind a backend has in common: what it is given, how long it may take, when it is back."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rosa_server.models.backend import InputSpec, ModelInput, check_batch

RETRY_S = 0.5


class ServerError(RuntimeError):
    """The server could not be asked, or answered an error."""


def spec_of(images: Mapping[str, Sequence[int]] | None, state: Mapping[str, int] | None) -> InputSpec:
    """What a factory file says that a server takes; nothing where its adapter says it."""
    sizes = {name: (int(size[0]), int(size[1])) for name, size in (images or {}).items()}
    return InputSpec(sizes, dict(state or {}))


def check(spec: InputSpec, batch: Sequence[ModelInput], max_batch: int) -> None:
    """Raise `ValueError` for inputs that are not what the file says."""
    check_batch(spec, batch, max_batch)


def left_s(batch: Sequence[ModelInput], timeout_s: float) -> float:
    """How long a call may take: until the last deadline of its batch. Raises `TimeoutError` when that has come."""
    left = min(timeout_s, max(one.deadline_s for one in batch) - time.monotonic())
    if left <= 0:
        raise TimeoutError("the deadline has come")
    return left


def waited_for(make: Any, wait_s: float) -> Any:
    """What `make()` returns, once the server is there. Raises its last `ServerError` after `wait_s`."""
    until_s = time.monotonic() + wait_s
    while True:
        try:
            return make()
        except ServerError:
            if time.monotonic() > until_s:
                raise
            time.sleep(RETRY_S)


def arrays_of(answer: Any, where: str) -> dict[str, Any]:
    """The arrays of an answer by name, such as `actions`. Raises `ServerError` where there are none."""
    if not isinstance(answer, dict):
        raise ServerError(f"{where}: expected a map with actions, got {type(answer).__name__}")
    arrays = {str(name): value for name, value in answer.items() if isinstance(value, np.ndarray)}
    if not arrays:
        got = ", ".join(map(str, list(answer)[:10])) or "nothing"
        raise ServerError(f"{where}: no array in its answer; it has {got}")
    return arrays


def last_line(text: str) -> str:
    """What a traceback ends with, in one line."""
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    return lines[-1][:300] if lines else "nothing"
