"""The first round's: one peer that sends as much as it can, and comes back when it is cut off."""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import time
import zlib
from collections.abc import Callable

import msgpack

from rosa_contract.wire import codec
from rosa_contract.wire import messages as m
from rosa_contract.wire.images import EncodedImage
from rosa_sim.fuzz.wire import MORE, RawPeer, frame, message
from rosa_sim.hostile.attempt import STRANGER, Attempt, Place
from rosa_sim.hostile.robots import FRONT, STATE, hello_of

FLOOD_S = 4.0
ROBOTS = itertools.count()  # each comes under its own name and address
CUT = ("bad_messages", "held_bytes", "handling_time", "address_waits")


def flooding(place: Place, data: bytes, seconds: float, source: str = STRANGER) -> tuple[int, int]:
    """Sends the same bytes again and again. Returns how many were sent and over how many connections."""
    sent = connections = 0
    stop = threading.Event()
    timer = threading.Timer(seconds, stop.set)
    timer.start()
    while not stop.is_set():
        try:
            peer = RawPeer(place.endpoint, source, timeout_s=1.0)
        except OSError:
            stop.wait(0.02)
            continue
        connections += 1
        with contextlib.suppress(OSError):
            while not stop.is_set():
                peer.send(data)
                sent += len(data)
        peer.close()
    return sent, connections


def flood(data: Callable[[], bytes]) -> Callable[[Place], tuple[str, str]]:
    def run(place: Place) -> tuple[str, str]:
        sent, connections = flooding(place, data(), FLOOD_S)
        return f"{sent / 1e6:.0f} MB over {connections} connections", ""

    return run


def huge_header() -> bytes:
    """A well-formed message that takes long to decode, with a key that no message has."""
    fields = {"v": m.SCHEMA_VERSION, "type": "health_query", "z": [{}] * 1_000_000, "#": 0xFFFFFFFF}
    body = msgpack.packb(fields)[:-4]
    return message([body + zlib.crc32(body).to_bytes(4, "big")])


def empty_frames() -> bytes:
    return frame(b"", MORE) * 1_000_000 + frame(b"")


def nested_lists() -> bytes:
    return message([b"\x91" * 60_000 + b"\xc0"])


def noise() -> bytes:
    return message([os.urandom(60_000)])


def endless() -> bytes:
    return frame(bytes(1 << 20), MORE)


def hellos() -> bytes:
    """Under names that nobody has had."""
    return b"".join(
        message(codec.encode(m.Hello(f"x{os.urandom(8).hex()}", "none", {}, {}))) for _ in range(100)
    )


def _unasked_camera(place: Place) -> tuple[str, str]:
    number = next(ROBOTS)
    peer = RawPeer(place.endpoint, f"127.0.9.{1 + number % 250}")
    peer.send(message(codec.encode(hello_of(f"camera{number}"))))
    peer.receive()
    extra = EncodedImage("rgb8", 3000, 3000, bytes(27_000_000))
    request = m.Request(1, "system1", 300.0, "", STATE, {"front": FRONT, "back": extra})
    data, sent = message(codec.encode(request)), 0
    with contextlib.suppress(OSError):
        for _ in range(40):
            peer.send(data)
            sent += 1
    time.sleep(1.0)
    peer.close()
    return f"{sent} of 40 sent", "all were taken" if sent == 40 else ""


FLOODS = (
    Attempt(
        "huge_header",
        "1.3",
        "a header of 1 MB with a million empty maps, in a loop",
        "cut off",
        flood(huge_header),
        CUT,
    ),
    Attempt(
        "empty_frames",
        "1.3",
        "a message of a million empty frames, in a loop",
        "cut off",
        flood(empty_frames),
        CUT,
    ),
    Attempt(
        "nested_lists", "1.3", "nested lists, 60,000 deep, in a loop", "cut off", flood(nested_lists), CUT
    ),
    Attempt("noise", "1.3", "60 kB of noise, in a loop", "cut off", flood(noise), CUT),
    Attempt("hellos", "1.3", "hello for a task that is not there, in a loop", "cut off", flood(hellos), CUT),
    Attempt("endless", "1.4", "frames of 1 MB with more to follow, for ever", "cut off", flood(endless), CUT),
    Attempt(
        "unasked_camera",
        "1.4",
        "40 requests of a robot with a camera of 27 MB that the model does not take",
        "cut off",
        _unasked_camera,
        ("held_bytes", "held_in_all"),
    ),
)
