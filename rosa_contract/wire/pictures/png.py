"""PNG files that anybody may have sent, written anew before libpng sees them (PNG specification, third edition).

A small file may inflate to gigabytes, and its ancillary chunks hold more compressed data. So nothing but the picture
is read, it is inflated to the size of the picture and not a byte further, and what OpenCV gets is a file of our own,
whose data is stored rather than compressed: the picture is inflated once, and libpng finds nothing to complain about.
"""

from __future__ import annotations

import struct
import zlib

import numpy as np

from rosa_contract.errors import CodecError

SIGNATURE = b"\x89PNG\r\n\x1a\n"
IHDR_BYTES = 13
MAX_CHUNKS = 8192  # encoders write 8 KB or more in each
MAX_FILTER = 4  # row filters are numbered from 0
COLOURS = {0: "grey", 2: "RGB", 3: "palette", 4: "grey with alpha", 6: "RGB with alpha"}
CHANNELS = {0: 1, 2: 3}  # colour types that a camera sends


def png_size(raw: bytes) -> tuple[int, int]:
    """(height, width) px that the file announces. Raises `CodecError`."""
    if len(raw) < 24 or not raw.startswith(SIGNATURE) or raw[12:16] != b"IHDR":
        raise _bad(f"{len(raw)} bytes that do not begin like a PNG file")
    width, height = struct.unpack(">II", raw[16:24])
    return height, width


def plain_png(raw: bytes) -> bytes:
    """The same picture as a file with nothing but 8-bit grey or RGB rows, not compressed.

    `raw` is a file for which `png_size` found a size, and which the caller has bounded. Raises `CodecError`.
    """
    header, compressed = _chunks(raw)
    width, height, depth, colour, method, filters, interlace = struct.unpack(">IIBBBBB", header)
    if depth != 8:
        raise _bad(f"expected 8-bit samples, got a {depth}-bit file")
    if colour not in CHANNELS:
        raise _bad(f"expected grey or RGB, got {COLOURS.get(colour, f'colour type {colour}')}")
    if interlace:
        raise _bad("expected rows in order, got an interlaced file")
    if method or filters:
        raise _bad(f"unknown compression {method} or filter method {filters}")
    data = _inflated(compressed, height, 1 + width * CHANNELS[colour])
    parts = (_chunk(b"IHDR", header), _chunk(b"IDAT", zlib.compress(data, 0)), _chunk(b"IEND", b""))
    return SIGNATURE + b"".join(parts)


def _chunks(raw: bytes) -> tuple[bytes, bytes]:
    """The content of IHDR, and that of all IDAT chunks. Any other chunk but the last is refused."""
    header, parts = b"", []
    at = len(SIGNATURE)
    for _ in range(MAX_CHUNKS):
        if at + 12 > len(raw):
            raise _bad("it ends before its IEND chunk")
        (length,) = struct.unpack(">I", raw[at : at + 4])
        kind, end = raw[at + 4 : at + 8], at + 12 + length
        if end > len(raw):
            raise _bad(f"chunk {_name(kind)} of {length} bytes is longer than the file")
        if zlib.crc32(raw[at + 4 : end - 4]) != int.from_bytes(raw[end - 4 : end], "big"):
            raise _bad(f"chunk {_name(kind)} has a wrong checksum")
        body, at = raw[at + 8 : end - 4], end
        if kind == b"IHDR" and not header and length == IHDR_BYTES:
            header = body
        elif kind == b"IDAT":
            parts.append(body)
        elif kind == b"IEND":
            if length or at != len(raw):
                raise _bad("it goes on behind its IEND chunk")
            return header, b"".join(parts)
        else:
            raise _bad(f"expected IHDR, IDAT and IEND, each where it belongs, got a chunk {_name(kind)}")
    raise CodecError("too_large", f"png image: expected at most {MAX_CHUNKS} chunks")


def _inflated(compressed: bytes, height: int, row_bytes: int) -> bytes:
    """All rows, each behind the number of its filter: exactly `height * row_bytes` bytes."""
    expected = height * row_bytes
    inflater = zlib.decompressobj()
    try:
        data = inflater.decompress(compressed, expected + 1)
    except zlib.error as error:
        raise _bad(f"its data does not inflate: {error}") from None
    if len(data) > expected:
        raise CodecError("too_large", f"png image: inflates beyond the {expected} bytes of its header")
    if len(data) < expected or not inflater.eof or inflater.unused_data:
        raise _bad(f"its data are {len(data)} bytes, with a checksum, instead of {expected}")
    if np.frombuffer(data, np.uint8).reshape(height, row_bytes)[:, 0].max() > MAX_FILTER:
        raise _bad("a row has an unknown filter")
    return data


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(body, zlib.crc32(kind)))


def _name(kind: bytes) -> str:
    return kind.decode() if kind.isalpha() else repr(kind)


def _bad(words: str) -> CodecError:
    return CodecError("bad_image", f"png image: {words}")
