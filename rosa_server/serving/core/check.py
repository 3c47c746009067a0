"""Whether a request's header fits what its model takes, before any worker sees it. Image bytes are not looked at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rosa_contract.errors import CodecError
from rosa_server.serving.core.router import ModelNeeds

MAX_ID = (1 << 63) - 1
MAX_BUDGET_MS = 600_000.0


def request_fields(header: Mapping[str, Any]) -> tuple[int, str, float]:
    """(request_id, component, budget_ms) of a request header. Raises `CodecError`: it cannot be answered."""
    request_id, component, budget_ms = header.get("i"), header.get("c"), header.get("b")
    if type(request_id) is not int or not 0 <= request_id <= MAX_ID:
        raise CodecError(f"request_id: expected a whole number from 0 to 2^63 - 1, got {request_id!r:.60}")
    if type(component) is not str or not 0 < len(component) <= 128:
        raise CodecError(f"component: expected 1 to 128 characters, got {component!r:.60}")
    if type(budget_ms) not in (float, int) or not 0.0 <= budget_ms <= MAX_BUDGET_MS:  # type: ignore[operator]
        raise CodecError(f"budget_ms: expected a number from 0 to {MAX_BUDGET_MS:g}, got {budget_ms!r:.60}")
    return request_id, component, float(budget_ms)  # type: ignore[arg-type]


def misfit(header: Mapping[str, Any], frame_count: int, needs: ModelNeeds | None) -> str:
    """Why this request does not fit the model, or an empty string. The worker checks the bytes themselves."""
    images, state = header.get("m"), header.get("s")
    if type(images) is not list or frame_count != 1 + len(images):
        count = len(images) if isinstance(images, list) else 0
        return f"the header lists {count} images, the message carries {frame_count - 1}"
    if type(state) is not dict:
        return "state: expected a map of arrays"
    if needs is None:
        return ""
    sizes = {}
    for entry in images:
        if type(entry) is not list or len(entry) != 4 or type(entry[0]) is not str:
            return "image: expected [camera, encoding, height, width]"
        sizes[entry[0]] = (entry[2], entry[3])
    for camera, size in needs.images.items():
        got = sizes.get(camera)
        if got is None:
            return f"camera {camera!r} is missing; got {', '.join(sizes) or 'none'}"
        if got != tuple(size):
            return f"camera {camera!r}: expected (height, width) {tuple(size)}, got {got}"
    for name, length in needs.state.items():
        entry = state.get(name)
        if type(entry) is not list or len(entry) != 3:
            return f"state {name!r} is missing; expected {length} values"
        if entry[1] != [length]:
            return f"state {name!r}: expected shape [{length}], got {entry[1]!r:.60}"
    return ""
