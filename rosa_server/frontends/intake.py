"""What a connection's bytes may cost: they reach its protocol in turns, and no faster than a meter allows.

A library that parses whatever has come, in one go, spends tenths of a second on a quarter of a megabyte of pings or
empty frames. Nothing of that is a message yet, so no limit on messages sees it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

from rosa_server.frontends import limits
from rosa_server.frontends.limits import Meter

PIECE_BYTES = 2 << 10  # 4 ms if all of it were pings
TURN_S = 0.002  # of feeding; then it is the turn of others
STEP_S = 50e-6  # of a turn, for what is around the protocol: system call, event loop, wake-ups
# Why a connection is not read: its protocol has enough, or its peer takes no answers.
FULL, UNREAD = "full", "unread"


class TimedIntake:
    """Stands between a transport, which it pauses, and the `feed` of a protocol. It is the transport for the protocol.

    `meters`: of the frontend's time, s, as they are now. `floods`: called when what comes is no message for too long.
    """

    def __init__(
        self,
        transport: Any,
        feed: Callable[[bytes], None],
        meters: Callable[[], Sequence[Meter]],
        floods: Callable[[], None],
        max_message_mb: float,
    ) -> None:
        self._transport, self._feed = transport, feed
        self._meters, self._floods = meters, floods
        self._loop = asyncio.get_running_loop()
        # A message that is not whole is none yet, so more for a longer one.
        self._beside_s = limits.BESIDE_BURST_S + limits.BESIDE_S_PER_MB * max_message_mb
        self.message()
        self._unfed = bytearray()  # at most what a transport reads at once: it is paused meanwhile
        self._why: set[str] = set()
        self._next: asyncio.Handle | None = None
        self._paused = self._closed = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def received(self, data: bytes) -> None:
        """The transport has read something."""
        if self._closed:
            return
        self._unfed += data
        if self._next is None:
            self._step()

    def message(self) -> None:
        """What was fed has become a message."""
        self._beside = Meter(limits.BESIDE_SHARE, self._beside_s)

    def pause_reading(self) -> None:
        self.hold(FULL)

    def resume_reading(self) -> None:
        self.release(FULL)

    def hold(self, why: str) -> None:
        """Nothing is read until this is released."""
        self._why.add(why)

    def release(self, why: str) -> None:
        """This is no reason any more."""
        self._why.discard(why)
        if not self._why and self._next is None and not self._closed:
            self._next = self._loop.call_soon(self._step)

    def ended(self) -> None:
        """The connection has ended; what was not fed is dropped."""
        self._closed = True
        self._unfed.clear()
        if self._next is not None:
            self._next.cancel()

    def _step(self) -> None:
        """Feed for a turn, and see when the next one may follow."""
        self._next = None
        meters, now_s = self._meters(), time.monotonic()
        wait_s = max(meter.wait_s(now_s) for meter in meters)
        began_s, spent_s = time.thread_time(), 0.0
        while self._unfed and not self._why and spent_s < TURN_S and wait_s == 0:
            piece = bytes(self._unfed[:PIECE_BYTES])
            del self._unfed[:PIECE_BYTES]
            self._feed(piece)
            spent_s = time.thread_time() - began_s
        if spent_s > 0:
            for meter in (*meters, self._beside):
                meter.spend(now_s, spent_s + STEP_S)
            wait_s = max(meter.wait_s(now_s) for meter in meters)
            if self._beside.wait_s(now_s) > 0:
                self._floods()
        if self._closed:
            return
        if self._unfed and not self._why:
            later, soon = self._loop.call_later, self._loop.call_soon
            self._next = later(wait_s, self._step) if wait_s > 0 else soon(self._step)
        stops = bool(self._unfed or self._why)
        if stops != self._paused:
            self._paused = stops
            if stops:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()
