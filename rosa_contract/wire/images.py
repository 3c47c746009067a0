"""Images on the wire: JPEG, PNG or raw RGB, one ZeroMQ frame each, decoded only after their real size is known."""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np
import numpy.typing as npt

from rosa_contract.errors import CodecError
from rosa_contract.wire.pictures.jpeg import jpeg_size, plain_jpeg
from rosa_contract.wire.pictures.png import plain_png, png_size

cv2: Any
try:
    import cv2
except ImportError:  # a client that sends pictures and reads none can do with Pillow, a tenth of the size
    cv2 = None

ENCODINGS = ("jpeg", "png", "rgb8")
MAX_SIDE_PX = 4096
Rgb = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class EncodedImage:
    """One camera frame. `data` is any bytes-like object and is sent as it is, without a copy."""

    encoding: str  # jpeg, png or rgb8 (raw)
    height: int  # px
    width: int  # px
    data: bytes | memoryview


def encode_image(rgb: Rgb, encoding: str = "jpeg", quality: int = 90) -> EncodedImage:
    """Encode a (height, width, 3) uint8 RGB image; `quality` (1..100) counts for JPEG only."""
    if rgb.dtype != np.uint8 or rgb.ndim != 3 or rgb.shape[2] != 3:
        raise CodecError(
            "bad_image", f"image: expected uint8 (height, width, 3), got {rgb.dtype} {rgb.shape}"
        )
    height, width = rgb.shape[:2]
    check_size(height, width)
    if encoding == "rgb8":
        return EncodedImage(encoding, height, width, np.ascontiguousarray(rgb).data.cast("B"))
    _check_encoding(encoding)
    if cv2 is None:
        return EncodedImage(encoding, height, width, _by_pillow(rgb, encoding, quality))
    suffix, options = (".jpg", [cv2.IMWRITE_JPEG_QUALITY, quality]) if encoding == "jpeg" else (".png", [])
    done, data = cv2.imencode(suffix, cv2.cvtColor(rgb, cv2.COLOR_RGB2BGR), options)
    if not done:
        raise CodecError("bad_image", f"image: OpenCV could not encode {width}x{height} as {encoding}")
    return EncodedImage(encoding, height, width, data.tobytes())


def _by_pillow(rgb: Rgb, encoding: str, quality: int) -> bytes:
    try:
        from PIL import Image
    except ImportError:
        words = "neither OpenCV nor Pillow is installed: pip install pillow, or send rgb8"
        raise CodecError("bad_image", f"image encoding {encoding}: {words}") from None
    file = BytesIO()
    Image.fromarray(rgb).save(file, encoding, **({"quality": quality} if encoding == "jpeg" else {}))
    return file.getvalue()


def decode_image(image: EncodedImage, into: Rgb | None = None) -> Rgb:
    """The image as (height, width, 3) uint8 RGB.

    `into`: where a JPEG or PNG of that size is written, instead of a new array; raw images stay where they are.
    Raises `CodecError` when the bytes are not what `encoding`, `height` and `width` announce. Whatever in a file could
    take more time or memory than its picture, or make a library write, is refused before one sees it (`pictures/`).
    """
    check_size(image.height, image.width)
    size = image.height, image.width
    if image.encoding == "rgb8":
        if len(image.data) != image.height * image.width * 3:
            raise CodecError(
                "bad_image",
                f"raw image: {size} needs {image.height * image.width * 3} bytes, got {len(image.data)}",
            )
        return np.frombuffer(image.data, np.uint8).reshape(image.height, image.width, 3)
    raw = bytes(image.data)
    real = written_size(image.encoding, raw)
    if real != size:
        raise CodecError(
            "bad_image", f"{image.encoding} image: announced as (height, width) {size}, its bytes say {real}"
        )
    if cv2 is None:
        raise CodecError("bad_image", f"{image.encoding} image: OpenCV, which reads it, is not installed")
    plain = plain_png(raw) if image.encoding == "png" else plain_jpeg(raw)
    try:
        bgr = cv2.imdecode(np.frombuffer(plain, np.uint8), cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION)
    except cv2.error as error:
        raise CodecError("bad_image", f"{image.encoding} image: OpenCV refused it: {error.code}") from None
    if bgr is None or bgr.shape[:2] != size:
        raise CodecError("bad_image", f"{image.encoding} image: {len(image.data)} bytes do not decode")
    if into is not None and into.shape == bgr.shape:  # else OpenCV would write into a new array
        cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB, dst=into)
        return into
    rgb: Rgb = cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB).astype(np.uint8, copy=False)
    return rgb


def check_size(height: int, width: int) -> None:
    """Raise `CodecError` unless both sides are within 1..MAX_SIDE_PX."""
    if not (1 <= height <= MAX_SIDE_PX and 1 <= width <= MAX_SIDE_PX):
        raise CodecError("too_large", f"image: both sides must be 1..{MAX_SIDE_PX} px, got {width}x{height}")


def check_announced(image: EncodedImage) -> None:
    """Raise `CodecError` unless its encoding is a known one and its size a possible one. Its bytes are not read."""
    check_size(image.height, image.width)
    _check_encoding(image.encoding)


def _check_encoding(encoding: str) -> None:
    if encoding not in ENCODINGS:
        raise CodecError(
            "bad_image", f"image encoding: expected one of {', '.join(ENCODINGS)}, got {encoding!r}"
        )


def written_size(encoding: str, data: bytes | memoryview) -> tuple[int, int]:
    """(height, width) px that a jpeg or png file announces. Raises `CodecError` for other bytes."""
    raw = bytes(data)
    return png_size(raw) if encoding == "png" else jpeg_size(raw)
