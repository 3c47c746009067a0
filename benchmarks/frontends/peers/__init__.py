"""Policy servers and their clients, with one emulated model behind all.

Each module has `serve(address)`, which runs until it is ended (`python -m` the module and the address), and
`Client(address)` with `call(observation) -> actions (50, 8) float32` and `close()`. A call that is refused raises
`NoAnswer`; the client can be used again. This module and `client` need numpy only: they also run in the environment of
`inferential_zmq`.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks.transport.peers import ACTIONS, CAMERAS, SIZE, STATE
from benchmarks.transport.peers import null_policy as checked

ALONE_MS, FULL_MS, FULL = 20.0, 40.0, 16  # of a batch of one, and of a full one
PER_ITEM_MS = (FULL_MS - ALONE_MS) / (FULL - 1)
SLO_MS = 200.0
PATIENCE_S = 30.0

__all__ = ["ACTIONS", "CAMERAS", "SIZE", "STATE", "NoAnswer", "one_by_one"]


class NoAnswer(Exception):
    """The server refused a call, or did not answer it."""


def one_by_one(seen: dict[str, Any]) -> np.ndarray:
    """The model, for a server that runs one observation at a time."""
    actions = checked(seen)
    time.sleep(ALONE_MS / 1000)
    return actions
