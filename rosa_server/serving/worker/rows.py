"""Where the pictures of a batch are decoded to: neighbouring rows of one array for each camera.

A model then has its batch as one array without a copy (`rosa_server/models/stacking.py`), and memory that was used
before costs no page faults. While the model runs one batch, the next one is decoded: there are two arrays in turn. On
CUDA their memory is pinned, so that a copy to the GPU goes past the CPU.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rosa_server.models.stacking import Place

Picture = NDArray[np.uint8]
MAX_MB = 512  # of one camera's pictures of one batch; beyond that they have arrays of their own


class Rows:
    """The arrays of one worker. `place` may be called from any thread."""

    def __init__(self, count: int, empty: Callable[[tuple[int, ...]], Picture] | None = None) -> None:
        """`count`: requests of the largest batch. `empty` makes an array of a shape, for tests."""
        self._count, self._empty = count, empty or _empty
        self._turns: tuple[dict[str, Picture], ...] = ({}, {})
        self._turn = 0
        self._lock = Lock()

    def next(self) -> Callable[[int], Place]:
        """The rows of one more batch: request -> place. Those of the batch before stay as they are, no older ones."""
        self._turn = 1 - self._turn
        arrays = self._turns[self._turn]
        return lambda number: lambda name, shape: self._row(arrays, number, name, tuple(shape))

    def _row(
        self, arrays: dict[str, Picture], number: int, name: str, shape: tuple[int, ...]
    ) -> Picture | None:
        with self._lock:
            array = arrays.get(name)
            if array is None and self._count * int(np.prod(shape)) <= MAX_MB * 1e6:
                array = arrays[name] = self._empty((self._count, *shape))
        if array is None or number >= self._count or array.shape[1:] != shape:
            return None
        row: Picture = array[number]
        return row


def _empty(shape: tuple[int, ...]) -> Picture:
    torch: Any = sys.modules.get("torch")  # of a model that has loaded it
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        try:
            pinned: Picture = torch.empty(shape, dtype=torch.uint8, pin_memory=True).numpy()
            return pinned
        except RuntimeError:  # the system allows no more pinned memory
            pass
    return np.empty(shape, np.uint8)
