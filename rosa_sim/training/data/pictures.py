"""Pictures as the models get them: through JPEG, and for training moved by some pixels."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

POLICY_CAMERAS = {"front": (96, 96), "wrist": (96, 96)}
Images = NDArray[np.uint8]


def through_jpeg(picture: Images, quality: int) -> Images:
    """`(h, w, 3)` RGB as the server sees it, after JPEG."""
    ok, coded = cv2.imencode(".jpg", picture[:, :, ::-1], [cv2.IMWRITE_JPEG_QUALITY, quality])
    if not ok:
        raise RuntimeError(f"OpenCV cannot encode a picture of shape {picture.shape} as JPEG")
    seen = cv2.imdecode(coded, cv2.IMREAD_COLOR)
    if seen is None:
        raise RuntimeError(
            f"OpenCV cannot decode the JPEG that it made of a picture of shape {picture.shape}"
        )
    return np.ascontiguousarray(seen[:, :, ::-1])


def shifted(images: Images, rng: np.random.Generator, limit: int) -> tuple[Images, NDArray[np.int64]]:
    """`(n, h, w, 3)`, each moved by up to `limit` pixels, its edge repeated; and how far, x and y `(n, 2)`."""
    n, height, width, _ = images.shape
    around = np.pad(images, ((0, 0), (limit, limit), (limit, limit), (0, 0)), mode="edge")
    moved, by = np.empty_like(images), rng.integers(-limit, limit + 1, (n, 2))
    for i, (dx, dy) in enumerate(by):
        moved[i] = around[i, limit - dy : limit - dy + height, limit - dx : limit - dx + width]
    return moved, by
