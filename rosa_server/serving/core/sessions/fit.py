"""Whether a robot can deliver what the models of its task take: asked at its hello, and by `rosa check`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Protocol

from rosa_contract.wire.messages import Hello, Refused


class Needs(Protocol):
    """What a model takes of an observation."""

    @property
    def images(self) -> Mapping[str, tuple[int, int]]:
        """Camera -> (height, width)."""

    @property
    def state(self) -> Mapping[str, int]:
        """Name -> length."""

    @property
    def resizes(self) -> Collection[str]:
        """Cameras of which `images` is the largest size only."""

    @property
    def unused(self) -> Collection[str] | None:
        """What a robot may have besides; None: anything."""

    @property
    def actions(self) -> str:
        """The space in which it answers; empty: joint positions, or no actions."""


def unfit(hello: Hello, models: Mapping[str, str], needs_of: Callable[[str], Needs | None]) -> Refused | None:
    """Why `hello` does not fit `models` (component -> model), or None. A model without needs is not ready yet.

    Everything that does not fit is in one reason; the cause is that of the first.
    """
    found: list[tuple[str, str]] = []
    for component, model in models.items():
        needs = needs_of(model)
        if needs is None:
            return Refused("not_ready", f"{model} ({component}) has no warm worker yet; say hello again")
        who = f"{component} ({model})"
        found += [(cause, f"{who} {words}") for cause, words in _misfits(hello, needs)]
    return Refused(found[0][0], "; ".join(words for _, words in found)) if found else None


def _misfits(hello: Hello, needs: Needs) -> Iterator[tuple[str, str]]:
    for camera, size in needs.images.items():
        have = hello.cameras.get(camera)
        if have is None:
            got = ", ".join(hello.cameras) or "none"
            yield "camera_missing", f"needs camera {camera!r}; the robot has {got}"
            continue
        wanted, got = f"{size[1]}x{size[0]} px (width x height)", f"{have.width}x{have.height}"
        if camera in needs.resizes:
            if have.height > size[0] or have.width > size[1]:
                yield "wrong_image_shape", f"takes camera {camera!r} up to {wanted}; got {got}"
        elif (have.height, have.width) != tuple(size):
            yield "wrong_image_shape", f"needs camera {camera!r} as {wanted}; got {got}"
    for name, length in needs.state.items():
        values = hello.state.get(name)
        if values != length:
            cause = "state_missing" if values is None else "wrong_state_shape"
            yield cause, f"needs state {name!r} with {length} values; got {values or 'none'}"
    if needs.actions and needs.actions not in hello.actions:
        able = ", ".join(hello.actions)
        got = f"only joint positions and {able}" if able else "only joint positions"
        yield "wrong_actions", f"answers {needs.actions}; the robot carries out {got}"
    if needs.unused is None:
        return
    for kind, names in (("camera", hello.cameras), ("state", hello.state)):
        taken = needs.images if kind == "camera" else needs.state
        if left := [name for name in names if name not in taken and name not in needs.unused]:
            words = f"takes nothing of the robot's {kind} {', '.join(left)}; map it, or name it in `adapter.unused`"
            yield "wrong_state_shape" if kind == "state" else "wrong_image_shape", words
