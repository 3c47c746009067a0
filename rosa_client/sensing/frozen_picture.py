"""Detects a frozen camera: the bytes of its pictures stay the same while the arm moves, whatever their stamps say.

Sensor noise makes every picture different, whatever is in view, so this also works for a camera that does not see the
arm. (The drivers of simulated and recorded cameras add a little noise.) A repeated picture alone is no evidence: some
cameras remove noise, and a picture stays true until the arm has moved. After that, the same bytes are not a new sample.
"""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass

import numpy as np

from rosa_contract.wire.images import EncodedImage
from rosa_contract.wire.messages import Array

# A joint that has turned this far has moved the hand by a centimetre or more, which a picture of the arm must show.
# Servo noise is a hundred times smaller.
MOVED_RAD = 0.03
# At most this many bytes of a raw picture are hashed, in whole rows: 0.1 ms instead of 0.4 ms for 640x480. Noise is
# everywhere in a picture, so some rows are enough.
HASHED_BYTES = 200_000


@dataclass
class _Seen:
    """The newest picture of a camera, and where the arm was when it first came."""

    fingerprint: int
    joints_rad: Array | None
    new_s: float  # when a picture last counted as new


class FrozenPictures:
    """Follows the pictures of all cameras of one robot."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}

    def repeated_s(self, name: str, fingerprint: int, joints_rad: Array | None, now_s: float) -> float:
        """A picture of camera `name` arrives: 0 when it is a new sample, else for how long none has been, s.

        `joints_rad` (joints,) is where the arm is now; None while unknown: then every picture counts as new.
        """
        seen = self._seen.get(name)
        if seen is None or seen.fingerprint != fingerprint or seen.joints_rad is None or joints_rad is None:
            self._seen[name] = _Seen(fingerprint, joints_rad, now_s)
            return 0.0
        if float(np.abs(joints_rad - seen.joints_rad).max()) <= MOVED_RAD:
            seen.new_s = now_s
            return 0.0
        return max(now_s - seen.new_s, math.ulp(0.0))


def fingerprint(image: EncodedImage) -> int:
    """A checksum of the picture's bytes, or of some rows of a large one."""
    if image.encoding != "rgb8" or len(image.data) <= HASHED_BYTES:
        return zlib.crc32(image.data)
    every = math.ceil(len(image.data) / HASHED_BYTES)
    rows = np.frombuffer(image.data, np.uint8).reshape(image.height, -1)
    return zlib.crc32(rows[::every].tobytes())
