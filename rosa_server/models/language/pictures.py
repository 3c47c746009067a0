"""Which pictures a model of words is shown: of any size, since such models resize for themselves."""

from __future__ import annotations

from collections.abc import Sequence

from rosa_server.models.backend import InputSpec

MAX_HEIGHT_PX, MAX_WIDTH_PX = 1200, 1920
USUAL_PX = (480, 640)  # of a camera, for a first call


def shows(cameras: Sequence[str]) -> InputSpec:
    """Pictures of these cameras, as large as a robot may send them."""
    if isinstance(cameras, str) or not all(isinstance(one, str) for one in cameras):
        raise ValueError(f"cameras: expected a list of names, got {cameras!r}")
    sizes = dict.fromkeys(cameras, (MAX_HEIGHT_PX, MAX_WIDTH_PX))
    return InputSpec(images=sizes, resizes=frozenset(sizes))


def usual(cameras: Sequence[str]) -> InputSpec:
    """What a measurement gives it: pictures of a usual camera, not the largest that it takes."""
    return InputSpec(images=dict.fromkeys(cameras, USUAL_PX))
