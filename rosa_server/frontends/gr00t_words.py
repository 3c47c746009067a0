"""What GR00T's clients say and get, in its three dialects. Pure.

| | N1.5 | N1.6 | N1.7 |
|---|---|---|---|
| `data` of `get_action` | the flat observation | `{observation, options}` | as N1.6 |
| answer | the map of actions | `[actions, info]` | as N1.6 |
| arrays | npy | npy | nd |
| configuration | `__ModalityConfig_class__`, JSON as text | the same, as a map | `__ModalityConfig__`, a map |

An observation is flat (`video.K`, `state.K`, `annotation...`) or nested (`video: {K: ...}`), and has a batch or not.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rosa_server.frontends.mapping import ClientMapping, described
from rosa_server.models.remote.arrays import Array, Dialect, WireError

N15, N16, N17 = "n1.5", "n1.6", "n1.7"
ARRAYS = {N15: Dialect.NPY, N16: Dialect.NPY, N17: Dialect.ND}
VIDEO, STATE, ACTION, LANGUAGE = "video", "state", "action", "language"
FRAME_DIMS, STATE_DIMS = 4, 2  # (frames, height, width, 3) and (steps, values): one more with a batch


@dataclass(frozen=True)
class Asked:
    """A call of `get_action`."""

    dialect: str
    nested: bool  # the observation, and so the answer
    batched: bool
    size: int  # robots. Not bounded: an array without values may have a side of any length
    flat: Mapping[str, Any]  # of all robots

    def observation(self, number: int) -> dict[str, Any]:
        """What one robot sees, flat. Raises `WireError`."""
        return _one(self.flat, number, self.batched)


def asked(data: Any, arrays: set[Dialect], known: str) -> Asked:
    """What a client asks, and in which dialect. `known`: the one that it has shown before, or empty.

    Raises `WireError`.
    """
    if not isinstance(data, dict):
        raise WireError("bad_request", f"data: expected a map with an observation, got {type(data).__name__}")
    wrapped = isinstance(data.get("observation"), dict)
    if Dialect.ND in arrays:
        dialect = N17
    elif Dialect.NPY in arrays:
        dialect = N16 if wrapped else N15
    else:
        dialect = known or (N16 if wrapped else N15)
    told = data["observation"] if wrapped else data
    flat, nested = _flat(told)
    size, batched = _batch(flat)
    return Asked(dialect, nested, batched, size, flat)


def answered(ask: Asked, answers: Sequence[Mapping[str, Array]], info: Mapping[str, Any]) -> Any:
    """What the client gets: the robots' actions joined, each (horizon, values)."""
    joined: dict[str, Any] = {}
    for name in answers[0]:
        rows = [one[name] for one in answers]
        key = name.removeprefix(f"{ACTION}.") if ask.nested else name
        joined[key] = np.stack(rows) if ask.batched else rows[0]
    return joined if ask.dialect == N15 else [joined, dict(info)]


def modality_config(mapping: ClientMapping, dialect: str) -> dict[str, Any]:
    """Which keys, and which steps of each, the clients send and get."""
    spec = mapping.spec
    flat = dialect == N15
    keys: dict[str, tuple[list[str], list[int]]] = {}
    video = sorted({source.key for source in spec.images.values()})
    if video:
        keys[VIDEO] = video, sorted({delta for key in video for delta in mapping.deltas(key)})
    state = sorted({part.key for parts in spec.state.values() for part in parts})
    if state:
        keys[STATE] = state, [0]
    keys[ACTION] = list(spec.actions), list(range(spec.horizon))
    if spec.prompt_key:
        keys[LANGUAGE] = [spec.prompt_key], [0]
    told = {}
    for kind, (names, deltas) in keys.items():
        shown = names if flat else [name.removeprefix(f"{kind}.") for name in names]
        told[kind] = _config({"delta_indices": deltas, "modality_keys": shown}, dialect)
    return told


def _config(content: dict[str, Any], dialect: str) -> dict[str, Any]:
    if dialect == N17:
        return {"__ModalityConfig__": True, "as_json": content}
    return {"__ModalityConfig_class__": True, "as_json": json.dumps(content) if dialect == N15 else content}


def _flat(told: Mapping[Any, Any]) -> tuple[dict[str, Any], bool]:
    """The observation with flat names, and whether it was nested."""
    nested = any(isinstance(told.get(kind), dict) for kind in (VIDEO, STATE, LANGUAGE))
    flat: dict[str, Any] = {}
    for name, value in told.items():
        if not nested or not isinstance(value, dict):
            flat[str(name)] = value
        elif name in (VIDEO, STATE):
            flat |= {f"{name}.{key}": one for key, one in value.items()}
        else:
            flat |= {str(key): one for key, one in value.items()}
    return flat, nested


def _batch(flat: Mapping[str, Any]) -> tuple[int, bool]:
    """How many observations there are, and whether they come as a batch."""
    sizes: dict[int, str] = {}
    for name, value in flat.items():
        dims = FRAME_DIMS if name.startswith(f"{VIDEO}.") else STATE_DIMS
        if isinstance(value, np.ndarray) and not name.startswith("annotation"):
            if value.ndim > dims + 1:
                raise WireError("bad_request", f"{name}: too many dimensions: {described(value)}")
            sizes.setdefault(len(value) if value.ndim == dims + 1 else 0, name)
    if len(sizes) > 1:
        words = ", ".join(f"{name} ({size or 'none'})" for size, name in sizes.items())
        raise WireError("bad_request", f"arrays of different batch sizes: {words}")
    size = next(iter(sizes), 0)
    if 0 in sizes or not sizes:
        return 1, False
    return size, True


def _one(flat: Mapping[str, Any], number: int, batched: bool) -> dict[str, Any]:
    """The observation with this number: images (frames, height, width, 3), states (values,), texts."""
    one: dict[str, Any] = {}
    for name, value in flat.items():
        if isinstance(value, np.ndarray):
            split = batched and not name.startswith("annotation")  # `_batch` has not looked at those
            kept = value[number] if split else value
            if not name.startswith(f"{VIDEO}.") and kept.ndim == STATE_DIMS:
                if len(kept) != 1:
                    raise WireError("bad_request", f"{name}: expected the state of one step, got {len(kept)}")
                kept = kept[0]
            one[name] = kept
        else:
            one[name] = _text(value, number)
    return one


def _text(value: Any, number: int) -> Any:
    """[[text]], [text] or text, each of a batch or for all."""
    while isinstance(value, list | tuple) and value:
        value = value[number] if number < len(value) else value[0]
        number = 0
    return value
