"""What the cameras of the robots that somebody looks at showed last."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from rosa_contract.errors import CodecError
from rosa_contract.wire.images import MAX_SIDE_PX, EncodedImage, decode_image, encode_image
from rosa_contract.wire.packing import check_sum, unpack

MAX_ROBOTS = 16
MAX_CAMERAS = 8
MAX_HEADER_BYTES = 1 << 14
KEPT_S = 600.0  # the page says how old a picture is
QUALITY = 80  # of what did not come as JPEG


@dataclass(frozen=True)
class Picture:
    """One camera's last frame, as the robot has sent it."""

    camera: str
    heard_s: float
    image: EncodedImage


class Gallery:
    """By robot; the one that was heard of longest ago makes room."""

    def __init__(self) -> None:
        self._of: dict[str, list[Picture]] = {}

    def hear(self, message: Sequence[bytes], now_s: float) -> None:
        """A message of the gateway; one that cannot be read is dropped."""
        try:
            told: dict[str, Any] = unpack(message[1], "pictures", MAX_HEADER_BYTES, 256)
            check_sum(message[1], told, "pictures")
            cameras = told["cameras"][:MAX_CAMERAS]
            if len(message) - 2 < len(cameras):
                return
            found = [
                Picture(str(name), now_s, EncodedImage(str(encoding), int(height), int(width), data))
                for (name, encoding, height, width), data in zip(cameras, message[2:], strict=False)
            ]
            robot = str(told["robot"])
        except (CodecError, KeyError, IndexError, TypeError, ValueError):
            return
        self._of.pop(robot, None)
        self._of[robot] = found
        while len(self._of) > MAX_ROBOTS:
            del self._of[next(iter(self._of))]

    def of(self, robot: str) -> list[Picture]:
        return self._of.get(robot, [])


def clean_jpegs(pictures: Sequence[Picture]) -> Iterator[tuple[Picture, EncodedImage]]:
    """Each picture as a JPEG of our own; those that cannot be decoded are left out.

    Every one is decoded here, as workers do it, and encoded again: no byte of a robot reaches a browser or a viewer.
    """
    for one in pictures:
        if max(one.image.height, one.image.width) > MAX_SIDE_PX:
            continue
        with suppress(CodecError):
            yield one, encode_image(decode_image(one.image), "jpeg", QUALITY)


def shown_pictures(pictures: Sequence[Picture], now_s: float) -> list[dict[str, Any]]:
    """For the page: camera, size, age and the picture as a data address. Old ones are left out."""
    found = []
    for one, clean in clean_jpegs([one for one in pictures if now_s - one.heard_s <= KEPT_S]):
        data = base64.b64encode(bytes(clean.data)).decode()
        found.append(
            {
                "camera": one.camera,
                "height": clean.height,
                "width": clean.width,
                "age_s": round(now_s - one.heard_s, 2),
                "data": f"data:image/jpeg;base64,{data}",
            }
        )
    return found
