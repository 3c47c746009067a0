"""Finding 2.4: pictures that are small to send and dear to decode, or that make a library write."""

from __future__ import annotations

import itertools
import struct
import time
import zlib
from collections.abc import Callable

import cv2
import numpy as np

from rosa_contract.wire import codec
from rosa_contract.wire import messages as m
from rosa_contract.wire.images import EncodedImage
from rosa_sim.fuzz.wire import RawPeer, message
from rosa_sim.hostile.attempt import Attempt, Place
from rosa_sim.hostile.robots import STATE, hello_of

SIDE_PX = 8
ROBOTS, RATE_HZ, SECONDS = 3, 2.5, 2.5
NAMES = itertools.count()  # a robot that has left keeps its name for a while
INFLATED_BYTES = 3_900_000  # of as many bytes as a camera of this size may send
SCANS = 200
MAX_LOGGED_BYTES_PER_S = 2_500


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png_bomb(height: int = SIDE_PX, width: int = SIDE_PX, inflated: int = INFLATED_BYTES) -> bytes:
    """An honest header, and data that go on behind the last row."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(bytes(inflated), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*part) for part in parts)


def jpeg_bomb(height: int = SIDE_PX, width: int = SIDE_PX, scans: int = SCANS) -> bytes:
    """A progressive picture of one colour, whose last scan comes again and again."""
    grey = np.full((height, width, 3), 90, np.uint8)
    data = bytes(cv2.imencode(".jpg", grey, [cv2.IMWRITE_JPEG_PROGRESSIVE, 1])[1].tobytes())
    last = data[data.rindex(b"\xff\xda") : -2]
    return data[:-2] + last * scans + data[-2:]


def noisy_png(height: int = SIDE_PX, width: int = SIDE_PX) -> bytes:
    """libpng has two lines to say about each of its chunks."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    profile = _chunk(b"iCCP", b"x\0\0" + zlib.compress(b"no profile"))
    rows = zlib.compress((b"\0" + bytes(3 * width)) * height)
    return (
        b"\x89PNG\r\n\x1a\n"
        + _chunk(b"IHDR", header)
        + profile
        + _chunk(b"IDAT", rows)
        + _chunk(b"IEND", b"")
    )


def noisy_jpeg(height: int = SIDE_PX, width: int = SIDE_PX) -> bytes:
    """Well-formed around a scan that is none: libjpeg warns of it, and decodes something."""
    noise = np.random.default_rng(1).integers(0, 255, (height, width, 3), np.uint8)
    data = bytes(cv2.imencode(".jpg", noise)[1].tobytes())
    start = data.rindex(b"\xff\xda") + 14
    return data[:start] + b"\x00" * max(1, len(data) - start - 4) + data[-2:]


def _send(encoding: str, make: Callable[[], bytes], cause: str) -> Callable[[Place], tuple[str, str]]:
    def run(place: Place) -> tuple[str, str]:
        picture = EncodedImage(encoding, SIDE_PX, SIDE_PX, make())
        robots = []
        for index in range(ROBOTS):
            robots.append(RawPeer(place.endpoint, f"127.0.7.{index + 1}"))
            robots[-1].send(message(codec.encode(hello_of(f"bomber{next(NAMES)}"))))
            if not isinstance(welcome := codec.decode(robots[-1].receive()), m.Welcome):
                raise RuntimeError(f"a robot with pictures was not welcomed: {welcome}")
        logged = place.log.stat().st_size
        answers: list[m.Response] = []
        number, began_s = 0, time.monotonic()
        while time.monotonic() - began_s < SECONDS:
            number += 1
            request = m.Request(number, "system1", 2000.0, "", STATE, {"front": picture})
            for robot in robots:
                robot.send(message(codec.encode(request)))
            for robot in robots:
                answer = codec.decode(robot.receive())
                if isinstance(answer, m.Response):
                    answers.append(answer)
            time.sleep(1 / RATE_HZ)
        for robot in robots:
            robot.close()
        logged, spent_s = place.log.stat().st_size - logged, time.monotonic() - began_s
        said = place.events("request_refused")
        causes = {answer.cause for answer in answers}
        seen = ", ".join(sorted(one or "ok" for one in causes))
        words = f"{len(answers)} pictures of {len(picture.data)} bytes: {seen}; {logged} bytes of log"
        checks = (
            ("another answer", causes != {cause}),
            (f"{logged} bytes of log", logged > MAX_LOGGED_BYTES_PER_S * (1 + spent_s)),
            ("the log does not name the robots", bool(cause) and not said),
        )
        return words, "; ".join(failed for failed, failing in checks if failing)

    return run


PICTURES = (
    Attempt(
        "png_bomb",
        "2.4",
        f"{ROBOTS} robots send PNG files of 4 kB that inflate to {INFLATED_BYTES / 1e6:.1f} MB",
        "inflated no further than their header says, and answered too_large",
        _send("png", png_bomb, "too_large"),
    ),
    Attempt(
        "jpeg_scans",
        "2.4",
        f"{ROBOTS} robots send JPEG files of {SCANS} progressive scans",
        "counted before they are decoded, and answered too_large",
        _send("jpeg", jpeg_bomb, "too_large"),
    ),
    Attempt(
        "noisy_png",
        "2.4",
        f"{ROBOTS} robots send PNG files that libpng warns of",
        "refused by name before libpng sees them",
        _send("png", noisy_png, "bad_image"),
    ),
    Attempt(
        "noisy_jpeg",
        "2.4",
        f"{ROBOTS} robots send JPEG files whose scan is none, of which libjpeg warns",
        "what libjpeg writes is bounded in the log",
        _send("jpeg", noisy_jpeg, ""),
    ),
)
