"""Pictures that are small to send and dear to decode, or that make a library write: refused before one sees them."""

from __future__ import annotations

import os
import struct
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

import cv2
import numpy as np
import pytest

from rosa_contract.errors import CodecError
from rosa_contract.wire.images import EncodedImage, Rgb, decode_image, encode_image

HEIGHT, WIDTH = 24, 32
SIGNATURE = b"\x89PNG\r\n\x1a\n"


def picture() -> Rgb:
    ramp = np.arange(HEIGHT * WIDTH * 3, dtype=np.uint32).reshape(HEIGHT, WIDTH, 3)
    return (ramp % 251).astype(np.uint8)


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def ihdr(depth: int = 8, colour: int = 2, interlace: int = 0) -> bytes:
    return chunk(b"IHDR", struct.pack(">IIBBBBB", WIDTH, HEIGHT, depth, colour, 0, 0, interlace))


def rows(channels: int = 3, of_filter: int = 0) -> bytes:
    return (bytes([of_filter]) + bytes(WIDTH * channels)) * HEIGHT


def png(*chunks: bytes) -> EncodedImage:
    return EncodedImage("png", HEIGHT, WIDTH, SIGNATURE + b"".join(chunks))


def idat(raw: bytes) -> bytes:
    return chunk(b"IDAT", zlib.compress(raw))


IEND = chunk(b"IEND", b"")


def jpeg(*options: int) -> bytes:
    return bytes(cv2.imencode(".jpg", picture()[:, :, ::-1], list(options))[1].tobytes())


def scan_of(data: bytes) -> bytes:
    """The last scan of a JPEG file: its header and its data."""
    return data[data.rindex(b"\xff\xda") : -2]


def refusal(image: EncodedImage) -> CodecError:
    with pytest.raises(CodecError) as caught:
        decode_image(image)
    return caught.value


@contextmanager
def standard_error() -> Iterator[list[bytes]]:
    """What anybody, C libraries among them, writes to descriptor 2 meanwhile."""
    written: list[bytes] = []
    with tempfile.TemporaryFile() as file:
        before = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            yield written
        finally:
            os.dup2(before, 2)
            os.close(before)
            file.seek(0)
            written.append(file.read())


# -- what cameras send ------------------------------------------------------------------------------------------------


def test_what_opencv_encodes_is_read_as_before() -> None:
    assert np.array_equal(decode_image(encode_image(picture(), "png")), picture())
    assert decode_image(encode_image(picture(), "jpeg")).shape == (HEIGHT, WIDTH, 3)


def test_a_grey_png_is_read() -> None:
    data = cv2.imencode(".png", picture()[:, :, 0])[1].tobytes()
    assert np.array_equal(
        decode_image(EncodedImage("png", HEIGHT, WIDTH, data)), picture()[:, :, :1].repeat(3, axis=2)
    )


@pytest.mark.parametrize(
    "options", [(), (cv2.IMWRITE_JPEG_PROGRESSIVE, 1), (cv2.IMWRITE_JPEG_RST_INTERVAL, 2)]
)
def test_every_kind_of_jpeg_that_opencv_writes_is_read_as_opencv_reads_it(options: tuple[int, ...]) -> None:
    data = jpeg(*options)
    expected = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)[:, :, ::-1]
    assert np.array_equal(decode_image(EncodedImage("jpeg", HEIGHT, WIDTH, data)), expected)


def test_what_a_camera_writes_beside_the_picture_is_left_out() -> None:
    """EXIF, comments, fill bytes and padding after the end: all harmless, none for a library to parse."""
    data = jpeg()
    exif = b"\xff\xe1\x00\x0aExif\0\0II"
    comment = b"\xff\xff\xff\xfe\x00\x05abc"
    decorated = data[:2] + exif + comment + data[2:] + bytes(100)
    plain = decode_image(EncodedImage("jpeg", HEIGHT, WIDTH, data))
    assert np.array_equal(decode_image(EncodedImage("jpeg", HEIGHT, WIDTH, decorated)), plain)


def test_a_view_into_shared_memory_is_read_like_bytes() -> None:
    for encoding in ("png", "jpeg"):
        image = encode_image(picture(), encoding)
        viewed = EncodedImage(encoding, HEIGHT, WIDTH, memoryview(bytearray(image.data)))
        assert np.array_equal(decode_image(viewed), decode_image(image))


# -- PNG --------------------------------------------------------------------------------------------------------------


def test_a_png_that_inflates_beyond_its_header_is_refused() -> None:
    bomb = png(ihdr(), idat(rows() + bytes(33_000_000)), IEND)
    assert len(bomb.data) < 40_000
    error = refusal(bomb)
    assert error.cause == "too_large" and "inflates" in str(error)


def test_one_byte_too_many_or_too_few_is_refused() -> None:
    assert refusal(png(ihdr(), idat(rows() + b"\0"), IEND)).cause == "too_large"
    assert refusal(png(ihdr(), idat(rows()[:-1]), IEND)).cause == "bad_image"


def test_bytes_behind_the_compressed_data_are_refused() -> None:
    error = refusal(png(ihdr(), chunk(b"IDAT", zlib.compress(rows()) + bytes(20)), IEND))
    assert error.cause == "bad_image"


@pytest.mark.parametrize(
    "kind", [b"tEXt", b"zTXt", b"iTXt", b"iCCP", b"eXIf", b"pHYs", b"PLTE", b"acTL", b"fdAT", b"tRNS"]
)
def test_any_chunk_beside_the_picture_is_refused_by_name(kind: bytes) -> None:
    error = refusal(png(ihdr(), chunk(kind, zlib.compress(bytes(10_000))), idat(rows()), IEND))
    assert error.cause == "bad_image" and kind.decode() in str(error)


@pytest.mark.parametrize(
    ("header", "channels", "named"),
    [
        (ihdr(depth=16), 6, "16-bit"),
        (ihdr(depth=1, colour=0), 1, "1-bit"),
        (ihdr(colour=3), 1, "palette"),
        (ihdr(colour=6), 4, "alpha"),
        (ihdr(colour=4), 2, "alpha"),
        (ihdr(interlace=1), 3, "interlaced"),
    ],
)  # fmt: skip
def test_what_no_camera_sends_is_refused_by_name(header: bytes, channels: int, named: str) -> None:
    error = refusal(png(header, idat(rows(channels)), IEND))
    assert error.cause == "bad_image" and named in str(error)


@pytest.mark.parametrize(
    "chunks",
    [
        [ihdr(), IEND],
        [ihdr(), idat(rows())],
        [ihdr(), ihdr(), idat(rows()), IEND],
        [ihdr(), idat(rows()), IEND, b"more"],
        [ihdr(), idat(rows())[:-1] + b"\0", IEND],
        [ihdr(), idat(rows(of_filter=5)), IEND],
        [ihdr(), chunk(b"IDAT", b"no zlib"), IEND],
        [ihdr(), idat(rows()), chunk(b"IEND", b"x")],
        [ihdr(), struct.pack(">I", 2**31) + b"IDAT"],
        [ihdr(), b"\0\0"],
    ],
)
def test_a_malformed_png_is_refused_and_no_library_writes_about_it(chunks: list[bytes]) -> None:
    with standard_error() as written:
        assert refusal(png(*chunks)).cause == "bad_image"
    assert written == [b""]


def test_a_million_empty_chunks_are_not_walked() -> None:
    empty = chunk(b"IDAT", b"")
    assert refusal(png(ihdr(), empty * 100_000, idat(rows()), IEND)).cause == "too_large"


# -- JPEG -------------------------------------------------------------------------------------------------------------


def test_a_jpeg_of_thousands_of_progressive_scans_is_refused() -> None:
    data = jpeg(cv2.IMWRITE_JPEG_PROGRESSIVE, 1)
    bomb = data[:-2] + scan_of(data) * 3000 + data[-2:]
    error = refusal(EncodedImage("jpeg", HEIGHT, WIDTH, bomb))
    assert error.cause == "too_large" and "scans" in str(error)


def test_a_baseline_jpeg_has_one_scan_per_component() -> None:
    data = jpeg()
    bomb = data[:-2] + scan_of(data) * 4 + data[-2:]
    assert refusal(EncodedImage("jpeg", HEIGHT, WIDTH, bomb)).cause == "too_large"


def test_scans_cannot_hide_behind_restart_markers() -> None:
    data = jpeg(cv2.IMWRITE_JPEG_PROGRESSIVE, 1)
    bomb = data[:-2] + (b"\xff\xd0\xff\xff" + scan_of(data)) * 3000 + data[-2:]
    assert refusal(EncodedImage("jpeg", HEIGHT, WIDTH, bomb)).cause == "too_large"


def _frame(
    data: bytes, marker: int | None = None, precision: int | None = None, components: int = 3
) -> bytes:
    """The file with another start of frame."""
    at = next(data.index(bytes((0xFF, one))) for one in (0xC0, 0xC2) if bytes((0xFF, one)) in data)
    length = struct.unpack(">H", data[at + 2 : at + 4])[0]
    body = bytearray(data[at : at + 2 + length])
    if marker is not None:
        body[1] = marker
    if precision is not None:
        body[4] = precision
    if components == 4:
        body[9] = 4
        body += b"\x04\x11\x00"
        body[2:4] = struct.pack(">H", length + 3)
    return data[:at] + bytes(body) + data[at + 2 + length :]


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (_frame(jpeg(), components=4), "CMYK"),
        (_frame(jpeg(), precision=16), "16-bit"),
        (_frame(jpeg(), precision=12), "12-bit"),
        (_frame(jpeg(), marker=0xC3), "lossless"),
        (_frame(jpeg(), marker=0xC9), "arithmetic"),
        (_frame(jpeg(), marker=0xC5), "hierarchical"),
    ],
)
def test_a_jpeg_that_no_camera_sends_is_refused_by_name(data: bytes, named: str) -> None:
    error = refusal(EncodedImage("jpeg", HEIGHT, WIDTH, data))
    assert error.cause == "bad_image" and named in str(error)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: data[:-2],
        lambda data: data[:-40],
        lambda data: data[:2] + b"garbage" + data[2:],
        lambda data: data[:2] + b"\xff\x01" + data[2:],
        lambda data: data[:2] + b"\xff\xe1\x00\x01" + data[2:],
        lambda data: data[:2] + b"\xff\xe1\xff\xff" + data[2:],
        lambda data: data[:2] + b"\xff\xd8" + data[2:],
        lambda data: data[:2] + b"\xff\xd9",
        lambda data: data.replace(b"\xff\xda\x00\x0c\x03", b"\xff\xda\x00\x0c\x04"),
        lambda data: data[:2],
    ],
)  # fmt: skip
def test_a_malformed_jpeg_is_refused_and_no_library_writes_about_it(spoil: object) -> None:
    with standard_error() as written:
        assert refusal(EncodedImage("jpeg", HEIGHT, WIDTH, spoil(jpeg()))).cause == "bad_image"  # type: ignore[operator]
    assert written == [b""]


def test_a_million_fill_bytes_and_segments_are_not_walked() -> None:
    data = jpeg()
    filled = data[:2] + b"\xff" * 1_000_000 + data[2:]
    assert decode_image(EncodedImage("jpeg", HEIGHT, WIDTH, filled)).shape == (HEIGHT, WIDTH, 3)
    table = data[data.index(b"\xff\xdb") :][:69]
    error = refusal(EncodedImage("jpeg", HEIGHT, WIDTH, data[:2] + table * 10_000 + data[2:]))
    assert error.cause == "too_large"
