"""What a robot sees, as a program hands it over: one mapping of names to arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rosa_client.robot.errors import RobotError
from rosa_contract.errors import CodecError
from rosa_contract.wire.images import EncodedImage, check_announced, encode_image
from rosa_contract.wire.messages import Array, CameraInfo, Hello

Observation = Mapping[str, Any]  # see `seen_in`
WORDS = (
    "expected a camera frame (uint8 of shape (height, width, 3), RGB, or an EncodedImage) or a state"
    " (numbers of shape (length,))"
)


@dataclass(frozen=True)
class Seen:
    """An observation in the contract's terms."""

    state: Mapping[str, Array]  # name -> (length,)
    images: Mapping[str, EncodedImage]

    def hello(self, name: str, task: str) -> Hello:
        """How a robot that sees this introduces itself."""
        cameras = {
            key: CameraInfo(height=one.height, width=one.width, encoding=one.encoding)
            for key, one in self.images.items()
        }
        return Hello(name, task, cameras, {key: len(value) for key, value in self.state.items()})


def seen_in(observation: Observation, encoding: str = "jpeg") -> Seen:
    """Sort an observation: uint8 (height, width, 3) is a camera's RGB frame, numbers (length,) are a state.

    Frames are encoded as `encoding` (jpeg, png or rgb8); an `EncodedImage` is sent as it is. Raises `RobotError`
    (`bad_observation`) that lists everything that is neither.
    """
    state: dict[str, Array] = {}
    images: dict[str, EncodedImage] = {}
    problems = []
    for name, value in observation.items():
        try:
            if isinstance(value, EncodedImage):
                check_announced(value)
                images[name] = value
                continue
            array = np.asarray(value)
            if array.ndim == 3:
                images[name] = encode_image(array, encoding)
            elif array.ndim == 1 and array.dtype.kind in "fiu":
                state[name] = array.astype(np.float32)
            else:
                problems.append(f"{name!r}: {WORDS}, got {array.dtype} {array.shape}")
        except (CodecError, TypeError, ValueError) as error:  # what NumPy can make no array of
            problems.append(f"{name!r}: {error}")
    if problems:
        raise RobotError("bad_observation", "; ".join(problems))
    return Seen(state, images)


def another_kind(seen: Seen, hello: Hello) -> str:
    """Why an observation does not fit what the robot has said it has, or an empty string."""
    now = seen.hello(hello.robot_id, hello.task)
    more = [
        f"camera {key!r} {now.cameras[key]}"
        for key in now.cameras
        if hello.cameras.get(key) != now.cameras[key]
    ]
    more += [
        f"state {key!r} of {now.state[key]}" for key in now.state if hello.state.get(key) != now.state[key]
    ]
    if not more:
        return ""
    return f"not in the first observation, or not like this: {', '.join(more)}; a Robot keeps its cameras and states"
