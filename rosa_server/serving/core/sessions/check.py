"""Whether a request's header fits what its model takes, before any worker sees it. Image bytes are not looked at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rosa_contract.errors import CodecError
from rosa_contract.wire.bounds import MAX_NAME_CHARS
from rosa_contract.wire.codec import MAX_ROBOT_HEADER_BYTES
from rosa_contract.wire.messages import Request
from rosa_contract.wire.progress import Progress
from rosa_contract.wire.schema import field_reader
from rosa_server.serving.core.sessions.router import ModelNeeds

REQUEST_ID, BUDGET_MS, OBSERVATION, PROGRESS = (
    field_reader(Request, name) for name in ("request_id", "budget_ms", "observation", "progress")
)
SPARE_BYTES = 4096  # beside the raw pixels: no encoding needs more than these and a tenth


def request_fields(header: Mapping[str, Any]) -> tuple[int, str, float]:
    """(request_id, component, budget_ms) of a request header. Raises `CodecError`: it cannot be answered."""
    component = header.get("component")
    if type(component) is not str or not 0 < len(component) <= MAX_NAME_CHARS:
        words = f"component: expected 1 to {MAX_NAME_CHARS} characters, got {component!r:.60}"
        raise CodecError("bad_field", words)
    return REQUEST_ID(header.get("request_id")), component, BUDGET_MS(header.get("budget_ms"))


def observation_of(header: Mapping[str, Any]) -> int | None:
    """What a request says it is about, or None. Raises `CodecError`."""
    observation: int | None = OBSERVATION(header["observation"]) if "observation" in header else None
    return observation


def progress_of(header: Mapping[str, Any]) -> Progress | None:
    """What a request says of its robot's task, or None. Raises `CodecError`."""
    progress: Progress | None = PROGRESS(header["progress"]) if "progress" in header else None
    return progress


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
    images, state = header.get("images"), header.get("state", {})
    if type(images) is not list or len(frames) != 1 + len(images):
        count = len(images) if isinstance(images, list) else 0
        return "wrong_frame_count", f"the header lists {count} images, the message carries {len(frames) - 1}"
    if type(state) is not dict:
        return "bad_field", "state: expected a map of arrays"
    if needs is None:
        return None
    sizes = {}
    for entry, frame in zip(images, frames[1:], strict=True):
        camera = entry.get("camera") if type(entry) is dict else None
        if type(camera) is not str:
            return "bad_field", "image: expected a map of camera, encoding, height, width and checksum"
        size = needs.images.get(camera)
        if size is None or camera in sizes:
            words = (
                f"camera {camera!r:.60}: the model takes {', '.join(needs.images) or 'no image'}, each once"
            )
            return "unexpected_image", words
        sizes[camera] = got = (entry.get("height"), entry.get("width"))
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
