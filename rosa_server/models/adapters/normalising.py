"""Normalisation from a model's statistics file, for models whose own code does not do it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rosa_contract.config.adapter import MEAN_STD, MIN_MAX, Normalisation
from rosa_contract.errors import ConfigError, ConfigProblem
from rosa_contract.wording import nearest

Array = NDArray[np.float64]
EPSILON = 1e-6  # a value that never varied in the data is not divided by 0
NAMES = {MEAN_STD: ("mean", "std"), "q01_q99": ("q01", "q99"), MIN_MAX: ("min", "max")}
MAX_BYTES = 64 << 20


@dataclass(frozen=True)
class Scale:
    """`normal = (value - zero) / one`, where `mask` says so."""

    zero: Array
    one: Array
    mask: NDArray[np.bool_]

    def normalised(self, values: Array) -> Array:
        """`(..., n)` -> `(..., n)`. Raises `ValueError` where the statistics are of fewer values."""
        zero, one, mask = self._first(values.shape[-1])
        return np.where(mask, (values - zero) / one, values)

    def restored(self, values: Array) -> Array:
        """The inverse."""
        zero, one, mask = self._first(values.shape[-1])
        return np.where(mask, values * one + zero, values)

    def _first(self, count: int) -> tuple[Array, Array, NDArray[np.bool_]]:
        if count > len(self.zero):
            raise ValueError(f"the statistics are of {len(self.zero)} values, the array has {count}")
        return self.zero[:count], self.one[:count], self.mask[:count]  # some files are padded at the end


def load_scales(spec: Normalisation) -> tuple[dict[str, Scale], dict[str, Scale]]:
    """The scales of state arrays and of arrays of the answer. Raises `ConfigError` naming everything that is wrong."""
    source = spec.file
    problems: list[ConfigProblem] = []
    document = _document(source)
    found = [
        {
            key: _scale(document, place, spec.method, f"{section}.{key}", problems)
            for key, place in given.items()
        }
        for section, given in (("state", spec.state), ("actions", spec.actions))
    ]
    if problems:
        raise ConfigError(source, problems)
    state, actions = ({key: scale for key, scale in one.items() if scale is not None} for one in found)
    return state, actions


def _document(source: str) -> Any:
    try:
        if Path(source).stat().st_size > MAX_BYTES:
            raise ConfigError(source, [ConfigProblem("", "too_large", f"is larger than {MAX_BYTES} bytes")])
        data = Path(source).read_bytes()
    except OSError as error:
        words = f"cannot be read: {error.strerror or error}"
        raise ConfigError(source, [ConfigProblem("", "unreadable", words)]) from None
    try:
        return json.loads(data.decode())
    except (ValueError, RecursionError) as error:  # also a number of thousands of digits
        raise ConfigError(source, [ConfigProblem("", "syntax", f"not JSON: {error}")]) from None


def _scale(document: Any, place: str, method: str, key: str, problems: list[ConfigProblem]) -> Scale | None:
    node = document
    for part in place.split("/"):
        if not isinstance(node, Mapping) or part not in node:
            known = [str(name) for name in node] if isinstance(node, Mapping) else []
            words = f"{place!r} is not in the file{nearest(part, known)}; there are {', '.join(known[:20]) or 'none'}"
            problems.append(ConfigProblem(key, "missing", words))
            return None
        node = node[part]
    low_name, high_name = NAMES[method]
    read = {name: _numbers(node, name) for name in NAMES[method]}
    missing = [name for name, values in read.items() if values is None]
    if missing:
        words = (
            f"{place!r} has no list of finite numbers {' and '.join(missing)}, which method {method} needs"
        )
        problems.append(ConfigProblem(key, "missing", words))
        return None
    low, high = read[low_name], read[high_name]
    assert low is not None and high is not None
    if low.shape != high.shape:
        words = f"{place!r}: {low_name} has {len(low)} values, {high_name} {len(high)}"
        problems.append(ConfigProblem(key, "wrong_length", words))
        return None
    mask = np.ones(len(low), bool)
    given = node.get("mask") if isinstance(node, Mapping) else None
    if given is not None:
        if not isinstance(given, list) or len(given) != len(low):
            words = f"{place!r}: mask: expected a list of {len(low)} truth values, as of {low_name}"
            problems.append(ConfigProblem(key, "wrong_length", words))
            return None
        mask = np.array([bool(one) for one in given])
    if method == MEAN_STD:
        return Scale(low, high + EPSILON, mask)
    half = (high - low + EPSILON) / 2
    return Scale(low + half, half, mask)


def _numbers(node: Any, name: str) -> Array | None:
    value = node.get(name) if isinstance(node, Mapping) else None
    if not isinstance(value, list) or not value:
        return None
    try:
        numbers = np.asarray(value, np.float64)
    except (TypeError, ValueError, OverflowError):
        return None
    return numbers if numbers.ndim == 1 and np.isfinite(numbers).all() else None
