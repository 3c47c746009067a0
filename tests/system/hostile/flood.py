"""Somebody who sends the same bytes for ever, and comes back when the gateway cuts the connection off."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rosa_sim.fuzz.wire import RawPeer

STRANGER = "127.0.0.2"  # the whole of 127/8 is this machine: hostile peers have addresses of their own


@dataclass
class Flood:
    """What became of it."""

    sent_bytes: int = 0
    connections: int = 0


@contextmanager
def flooding(endpoint: str, data: bytes, source: str = STRANGER, max_bytes: int = 1 << 40) -> Iterator[Flood]:
    """Sends `data` again and again in a thread of its own."""
    flood, stop = Flood(), threading.Event()

    def run() -> None:
        while not stop.is_set() and flood.sent_bytes < max_bytes:
            try:
                peer = RawPeer(endpoint, source, timeout_s=1.0)
            except OSError:
                stop.wait(0.02)
                continue
            flood.connections += 1
            try:
                while not stop.is_set() and flood.sent_bytes < max_bytes:
                    peer.send(data)
                    flood.sent_bytes += len(data)
            except OSError:
                pass
            finally:
                peer.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield flood
    finally:
        stop.set()
        thread.join(10)
