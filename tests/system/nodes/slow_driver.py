"""Cameras whose device never answers, from the start or once they are at work."""

from __future__ import annotations

import ctypes
import logging
import threading
from typing import Any

from tests.system.nodes.quick_driver import QuickCameras

SAYS_AFTER_S = 0.3  # when it surely waits


class SlowCameras:
    """Connects for longer than anybody waits, in a call of C that no signal interrupts."""

    def __init__(self, cameras: Any, node: Any, source: str) -> None:
        say_later("connecting")
        never_comes_back()


class StuckCameras(QuickCameras):
    """The device connects, and its first call for pictures does not come back."""

    def frames(self) -> Any:
        say_later("looking")
        never_comes_back()


def say_later(word: str) -> None:
    threading.Timer(SAYS_AFTER_S, logging.getLogger("rosa.camera").info, (word,)).start()


def never_comes_back() -> None:
    library, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(64)
    while library.pthread_mutex_lock(mutex) == 0:
        pass  # its second lock waits for ever
