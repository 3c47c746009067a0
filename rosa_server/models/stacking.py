"""Pictures of a batch as one array, without a copy where they lie side by side already."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Where a picture of this name and shape goes, which lies beside the others of its batch; None: no such place.
Place = Callable[[str, Sequence[int]], NDArray[np.uint8] | None]


def nowhere(name: str, shape: Sequence[int]) -> None:
    """A `Place` for pictures that outlive their batch, or whose batches run beside each other."""


def stacked(pictures: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """`np.stack(pictures)`: (n, *shape) of n arrays of one shape.

    A worker decodes the pictures of a batch into neighbouring rows of one array (`rosa_server/serving/worker/rows.py`).
    Of such ones this is a part of that array: the worker overwrites it after the next batch. Raises `ValueError` for
    pictures of different shapes.
    """
    first = pictures[0]
    whole = first.base
    if (
        not isinstance(whole, np.ndarray)
        or whole.shape[1:] != first.shape
        or whole.dtype != first.dtype
        or not whole.flags.c_contiguous
        or not first.nbytes
    ):
        return np.stack(pictures)
    at = _address(first)
    row, inside = divmod(at - _address(whole), first.nbytes)
    for number, one in enumerate(pictures):
        own = one.base is whole and one.shape == first.shape and one.flags.c_contiguous
        if not own or _address(one) != at + number * first.nbytes:
            return np.stack(pictures)
    return np.stack(pictures) if inside else whole[row : row + len(pictures)]


def _address(array: NDArray[Any]) -> int:
    address: int = array.__array_interface__["data"][0]
    return address
