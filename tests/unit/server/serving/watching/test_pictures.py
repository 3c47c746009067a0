"""Pictures go to those who have asked, once a second for each robot, and to nobody who looks no more."""

from __future__ import annotations

from typing import Any

import numpy as np

from rosa_contract.wire.images import encode_image
from rosa_contract.wire.packing import unpack
from rosa_server.serving.watching.pictures import (
    ASKED_FOR_S,
    EVERY_S,
    MAX_LOOKS,
    MAX_PICTURE_BYTES,
    PICTURES,
    Pictures,
)

SMALL = {"front": encode_image(np.zeros((8, 8, 3), np.uint8), "rgb8")}


def header(message: list[bytes]) -> dict[str, Any]:
    return dict(unpack(message[1], "pictures", 1 << 14, 256))


def test_nobody_looks_until_somebody_asks() -> None:
    pictures = Pictures()
    assert not pictures and not pictures.wants(0.0, "a")
    pictures.ask(0.0, b"w", "a")
    assert pictures and pictures.wants(0.0, "a") and not pictures.wants(0.0, "b")


def test_each_asking_gets_one_message_and_a_robot_is_shown_once_a_second() -> None:
    pictures = Pictures()
    pictures.ask(0.0, b"w", "a")
    pictures.ask(0.0, b"v", "a")
    watchers, message = pictures.shown(0.0, "a", SMALL)
    assert sorted(watchers) == [b"v", b"w"]
    assert message[0] == PICTURES and len(message) == 3 and message[2] == bytes(SMALL["front"].data)
    assert header(message)["cameras"] == [["front", "rgb8", 8, 8]] and header(message)["robot"] == "a"
    assert not pictures, "they ask again for the next one"
    pictures.ask(0.1, b"w", "a")
    assert not pictures.wants(0.1, "a")
    assert pictures.wants(EVERY_S, "a")


def test_who_asked_too_long_ago_is_forgotten() -> None:
    pictures = Pictures()
    pictures.ask(0.0, b"w", "a")
    pictures.forget(ASKED_FOR_S + 0.1)
    assert not pictures


def test_what_is_asked_and_what_is_sent_is_bounded() -> None:
    pictures = Pictures()
    for number in range(2 * MAX_LOOKS):
        pictures.ask(0.0, b"w", f"r{number}")
    assert sum(pictures.wants(0.0, f"r{number}") for number in range(2 * MAX_LOOKS)) == MAX_LOOKS
    pictures.ask(0.0, b"w", "r0")  # who looks already may go on
    assert pictures.wants(0.0, "r0")
    large = encode_image(np.zeros((1024, 1024, 3), np.uint8), "rgb8")
    _, message = pictures.shown(0.0, "r0", {"front": large, "wrist": large})
    assert sum(map(len, message[2:])) <= MAX_PICTURE_BYTES
    assert [one[0] for one in header(message)["cameras"]] == ["front"]
