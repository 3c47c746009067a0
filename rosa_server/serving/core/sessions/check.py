"""Whether a request's header fits what its model takes, before any worker sees it. Image bytes are not looked at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rosa_contract.errors import CodecError
from rosa_contract.wire.codec import MAX_ROBOT_HEADER_BYTES
from rosa_contract.wire.fields import progress
from rosa_contract.wire.progress import Progress
from rosa_server.serving.core.sessions.router import ModelNeeds

MAX_ID = (1 << 63) - 1
MAX_BUDGET_MS = 600_000.0
SPARE_BYTES = 4096  # beside the raw pixels: no encoding needs more than these and a tenth


def request_fields(header: Mapping[str, Any]) -> tuple[int, str, float]:
    """(request_id, component, budget_ms) of a request header. Raises `CodecError`: it cannot be answered."""
    request_id, component, budget_ms = header.get("i"), header.get("c"), header.get("b")
    if type(request_id) is not int or not 0 <= request_id <= MAX_ID:
        raise CodecError(
            "bad_field", f"request_id: expected a whole number from 0 to 2^63 - 1, got {request_id!r:.60}"
        )
    if type(component) is not str or not 0 < len(component) <= 128:
        raise CodecError("bad_field", f"component: expected 1 to 128 characters, got {component!r:.60}")
    if (
        isinstance(budget_ms, bool)
        or not isinstance(budget_ms, float | int)
        or not 0.0 <= budget_ms <= MAX_BUDGET_MS
    ):
        raise CodecError(
            "bad_field", f"budget_ms: expected a number from 0 to {MAX_BUDGET_MS:g}, got {budget_ms!r:.60}"
        )
    return request_id, component, float(budget_ms)


def observation_of(header: Mapping[str, Any]) -> int | None:
    """What a request says it is about, or None. Raises `CodecError`."""
    observation = header.get("o")
    if observation is not None and (type(observation) is not int or not 0 <= observation <= MAX_ID):
        words = f"expected a whole number from 0 to 2^63 - 1, got {observation!r:.60}"
        raise CodecError("bad_field", f"observation: {words}")
    return observation


def progress_of(header: Mapping[str, Any]) -> Progress | None:
    """What a request says of its robot's task, or None. Raises `CodecError`."""
    return progress(header["k"]) if "k" in header else None


def largest_image(size: tuple[int, int]) -> int:
    """Bytes that an image of (height, width) px may have, in whatever encoding."""
    raw = size[0] * size[1] * 3
    return raw + raw // 10 + SPARE_BYTES


def largest_request(needs: Iterable[ModelNeeds]) -> int:
    """Bytes that a request to any of these models may have."""
    images = (sum(largest_image(size) for size in one.images.values()) for one in needs)
    return MAX_ROBOT_HEADER_BYTES + max(images, default=0)


def misfit(
    header: Mapping[str, Any], frames: Sequence[Any], needs: ModelNeeds | None
) -> tuple[str, str] | None:
    """(cause, reason) of a request that does not fit the model, or None. The worker checks the bytes themselves."""
    images, state = header.get("m"), header.get("s")
    if type(images) is not list or len(frames) != 1 + len(images):
        count = len(images) if isinstance(images, list) else 0
        return "wrong_frame_count", f"the header lists {count} images, the message carries {len(frames) - 1}"
    if type(state) is not dict:
        return "bad_field", "state: expected a map of arrays"
    if needs is None:
        return None
    sizes = {}
    for entry, frame in zip(images, frames[1:], strict=True):
        if type(entry) is not list or len(entry) != 4 or type(entry[0]) is not str:
            return "bad_field", "image: expected [camera, encoding, height, width]"
        camera, size = entry[0], needs.images.get(entry[0])
        if size is None or camera in sizes:
            words = (
                f"camera {camera!r:.60}: the model takes {', '.join(needs.images) or 'no image'}, each once"
            )
            return "unexpected_image", words
        sizes[camera] = got = (entry[2], entry[3])
        if camera in needs.resizes:
            if any(
                type(side) is not int or not 1 <= side <= most for side, most in zip(got, size, strict=True)
            ):
                words = f"camera {camera!r}: expected (height, width) up to {tuple(size)}, got {got!r:.60}"
                return "wrong_image_shape", words
        elif got != tuple(size):
            words = f"camera {camera!r}: expected (height, width) {tuple(size)}, got {got!r:.60}"
            return "wrong_image_shape", words
        if len(frame) > largest_image(size):
            words = f"camera {camera!r}: expected at most {largest_image(size)} bytes, got {len(frame)}"
            return "too_large", words
    for camera in needs.images:
        if camera not in sizes:
            return "camera_missing", f"camera {camera!r} is missing; got {', '.join(sizes) or 'none'}"
    for name, length in needs.state.items():
        entry = state.get(name)
        if type(entry) is not list or len(entry) != 3:
            return "state_missing", f"state {name!r} is missing; expected {length} values"
        if entry[1] != [length]:
            return "wrong_state_shape", f"state {name!r}: expected shape [{length}], got {entry[1]!r:.60}"
    return None
