"""Whether a robot can deliver what the models of its task take: asked at its hello, and by `rosa check`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from rosa_contract.messages import Hello, Refused


class Needs(Protocol):
    """What a model takes of an observation."""

    @property
    def images(self) -> Mapping[str, tuple[int, int]]:
        """Camera -> (height, width)."""

    @property
    def state(self) -> Mapping[str, int]:
        """Name -> length."""


def unfit(hello: Hello, models: Mapping[str, str], needs_of: Callable[[str], Needs | None]) -> Refused | None:
    """Why `hello` does not fit `models` (component -> model), or None. A model without needs is not ready yet."""
    for component, model in models.items():
        needs = needs_of(model)
        if needs is None:
            return Refused("not_ready", f"{model} ({component}) has no warm worker yet; say hello again")
        for camera, size in needs.images.items():
            have = hello.cameras.get(camera)
            if have is None:
                got = ", ".join(hello.cameras) or "none"
                return Refused(
                    "camera_missing", f"{component} ({model}) needs camera {camera!r}; the robot has {got}"
                )
            if (have.height, have.width) != tuple(size):
                wanted, got = f"{size[1]}x{size[0]} px (width x height)", f"{have.width}x{have.height}"
                reason = f"{component} ({model}) needs camera {camera!r} as {wanted}; got {got}"
                return Refused("wrong_image_shape", reason)
        for name, length in needs.state.items():
            values = hello.state.get(name)
            if values != length:
                cause = "state_missing" if values is None else "wrong_state_shape"
                words = (
                    f"{component} ({model}) needs state {name!r} with {length} values; got {values or 'none'}"
                )
                return Refused(cause, words)
    return None
