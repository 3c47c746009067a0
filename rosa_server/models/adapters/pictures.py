"""A robot's picture as a model takes it: its size, its colours, and what the camera showed before."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from threading import Lock

import cv2
import numpy as np
from numpy.typing import NDArray

from rosa_contract.config.adapter import BGR, CROP, EXACT, PAD
from rosa_contract.config.conventions import swapped

Picture = NDArray[np.uint8]
MAX_STREAMS = (
    4096  # (robot, component, picture of the model) whose past is kept; the one not heard of for longest goes
)
GAP_S = 5.0  # a robot that was silent for longer begins anew


def fitted(picture: Picture, height: int, width: int, fit: str) -> Picture:
    """`(h, w, 3)` as `(height, width, 3)`. Raises `ValueError` where `fit` is exact and the size another."""
    have = picture.shape[:2]
    if have == (height, width):
        return picture
    if fit == EXACT:
        raise ValueError(
            f"expected {width}x{height} px (width x height), got {have[1]}x{have[0]}; the adapter says `fit: exact`"
        )
    shares = height / have[0], width / have[1]
    if fit == PAD:
        share = min(shares)
    elif fit == CROP:
        share = max(shares)
    else:
        return _scaled(picture, height, width)
    scaled_height, scaled_width = (max(1, round(side * share)) for side in have)
    scaled = _scaled(picture, scaled_height, scaled_width)
    if fit == PAD:
        padded = np.zeros((height, width, 3), np.uint8)
        top, left = (height - scaled_height) // 2, (width - scaled_width) // 2
        padded[top : top + scaled_height, left : left + scaled_width] = scaled
        return padded
    top, left = (scaled_height - height) // 2, (scaled_width - width) // 2
    return scaled[top : top + height, left : left + width]


def _scaled(picture: Picture, height: int, width: int) -> Picture:
    smaller = height * width < picture.shape[0] * picture.shape[1]
    # Area averaging keeps fine structure from turning into noise; enlarging it would show squares.
    how = cv2.INTER_AREA if smaller else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(picture, (width, height), interpolation=how), np.uint8)


def prepared(picture: Picture, height: int, width: int, fit: str, turn_deg: int, colours: str) -> Picture:
    """Turned, fitted, and in the model's order of colours; contiguous."""
    turned = np.rot90(picture, turn_deg // 90) if turn_deg else picture
    ready = fitted(np.ascontiguousarray(turned), height, width, fit)
    return swapped(ready) if colours == BGR else np.ascontiguousarray(ready)


class History:
    """The latest pictures of each robot. Any thread may ask; time is an argument."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._streams: OrderedDict[tuple[str, ...], tuple[deque[Picture], float, object]] = OrderedDict()

    def with_past(
        self, now_s: float, stream: tuple[str, ...], source: object, picture: Picture, count: int
    ) -> Sequence[Picture]:
        """The last `count` pictures of `stream`, oldest first, of which `picture` is the newest.

        `source`: what it was made from. The same one again, as when a batch is repeated, adds nothing. Where there
        are fewer pictures yet, the oldest is repeated.
        """
        with self._lock:
            kept, heard_s, last = self._streams.pop(stream, (deque[Picture](), now_s, None))
            if now_s - heard_s > GAP_S or kept.maxlen != count:
                kept = deque(maxlen=count)
                last = None
            if source is not last or not kept:
                kept.append(np.array(picture))
            self._streams[stream] = kept, now_s, source
            if len(self._streams) > MAX_STREAMS:
                self._streams.popitem(last=False)
            return [kept[0]] * (count - len(kept)) + list(kept)
