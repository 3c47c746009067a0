"""Cameras whose device never answers."""

from __future__ import annotations

import ctypes
import logging
import threading
from typing import Any

SAYS_AFTER_S = 0.3  # when it surely waits


class SlowCameras:
    """Connects for longer than anybody waits, in a call of C that no signal interrupts."""

    def __init__(self, cameras: Any, node: Any, source: str) -> None:
        threading.Timer(SAYS_AFTER_S, logging.getLogger("rosa.camera").info, ("connecting",)).start()
        library, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(64)
        while library.pthread_mutex_lock(mutex) == 0:
            pass  # its second lock waits for ever
