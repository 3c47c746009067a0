"""JPEG files that anybody may have sent, walked marker by marker before libjpeg sees them (ITU-T T.81, Annex B).

Every scan makes a decoder pass over the whole picture again, and a progressive scan may be ten bytes long. So scans are
counted, whatever no camera sends is refused, and comments, EXIF and padding are left out. Where a segment ends is
decided as libjpeg decides it: what follows a scan is found by the next marker, whatever the bytes between.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

from rosa_contract.errors import CodecError

SOI, EOI, SOS = 0xD8, 0xD9, 0xDA
DHT, DQT, DRI, COM = 0xC4, 0xDB, 0xDD, 0xFE
BASELINE, EXTENDED, PROGRESSIVE = 0xC0, 0xC1, 0xC2
FRAMES = (BASELINE, EXTENDED, PROGRESSIVE)
APPLICATION = range(0xE0, 0xF0)
KEPT_APPLICATION = (0xE0, 0xEE)  # JFIF and Adobe say which colour space it is
KEPT = (DHT, DQT, DRI, SOS, *FRAMES, *KEPT_APPLICATION)
OTHER_FRAMES = {
    0xC3: "lossless", 0xC5: "hierarchical", 0xC6: "hierarchical", 0xC7: "hierarchical", 0xC9: "arithmetic",
    0xCA: "arithmetic", 0xCB: "arithmetic", 0xCC: "arithmetic", 0xCD: "hierarchical", 0xCE: "hierarchical",
    0xCF: "hierarchical", 0xDE: "hierarchical",
}  # fmt: skip
MAX_SEGMENTS = 512  # an encoder writes about ten
MAX_SCANS = 16  # progressive: libjpeg writes at most 14
_MARKER = re.compile(rb"\xff+([\x01-\xfe])")
# Behind a scan: no stuffed byte, no fill byte, and no restart marker, which is part of it.
_NEXT_MARKER = re.compile(rb"\xff[\x01-\xcf\xd8-\xfe]")
Segment = tuple[int, int, int]  # marker, first byte of its own, end


def jpeg_size(raw: bytes) -> tuple[int, int]:
    """(height, width) px that the file announces. Raises `CodecError`."""
    for marker, at, end in _segments(raw):
        if (marker in FRAMES or marker in OTHER_FRAMES) and end - at >= 9:
            height, width = struct.unpack(">HH", raw[at + 5 : at + 9])
            return height, width
    raise _bad("it has no frame")


def plain_jpeg(raw: bytes) -> bytes:
    """The same picture with its tables, frame and scans only. Raises `CodecError`."""
    parts = [raw[:2]]
    kind = scans = components = 0
    for marker, at, end in _segments(raw):
        if marker in FRAMES:
            if kind:
                raise _bad("more than one frame")
            kind, components = marker, _components(raw[at:end])
        elif marker == SOS:
            scans += 1
            limit = MAX_SCANS if kind == PROGRESSIVE else components
            if scans > limit:
                raise CodecError("too_large", f"jpeg image: expected at most {limit} scans")
        elif marker == EOI:
            if not scans:
                raise _bad("it has no scan")
            return b"".join((*parts, b"\xff\xd9"))
        elif marker in OTHER_FRAMES:
            raise _bad(f"expected baseline or progressive, got {OTHER_FRAMES[marker]} coding")
        elif marker not in KEPT and marker != COM and marker not in APPLICATION:
            raise _bad(f"unexpected marker {marker:02x}")
        if marker in KEPT:
            parts.append(raw[at:end])
    raise _bad("it ends before its end marker")


def _segments(raw: bytes) -> Iterator[Segment]:
    """The segments behind the start of the image; a scan's data belong to its header. Ends with the end marker."""
    if raw[:2] != b"\xff\xd8":
        raise _bad("it has no start marker")
    at = 2
    for _ in range(MAX_SEGMENTS):
        found = _MARKER.match(raw, at)
        if found is None:
            raise _bad("bytes between two segments, or it ends before its end marker")
        marker, at = found[1][0], found.end() - 2
        if marker == EOI:
            yield marker, at, at + 2
            return
        if marker == SOI or marker < 0xC0 or 0xD0 <= marker < SOI:
            raise _bad(f"unexpected marker {marker:02x}")
        end = at + 2 + int.from_bytes(raw[at + 2 : at + 4], "big")
        if end < at + 4 or end > len(raw):
            raise _bad(f"segment {marker:02x} is shorter than its length, or longer than the file")
        if marker == SOS:
            following = _NEXT_MARKER.search(raw, end)
            if following is None:
                raise _bad("it ends within a scan")
            end = following.start()
        yield marker, at, end
        at = end
    raise CodecError("too_large", f"jpeg image: expected at most {MAX_SEGMENTS} segments")


def _components(frame: bytes) -> int:
    """How many components a start of frame announces: 1 (grey) or 3."""
    if len(frame) < 10 or len(frame) != 10 + 3 * frame[9]:
        raise _bad("its frame header has a wrong length")
    precision, components = frame[4], frame[9]
    if precision != 8:
        raise _bad(f"expected 8-bit samples, got a {precision}-bit file")
    if components not in (1, 3):
        words = "CMYK" if components == 4 else f"{components} components"
        raise _bad(f"expected grey or three components, got {words}")
    return components


def _bad(words: str) -> CodecError:
    return CodecError("bad_image", f"jpeg image: {words}")
