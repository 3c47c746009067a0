"""A connection's bytes come in turns, no faster than a meter allows, and others have theirs in between."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

from rosa_server.frontends import limits
from rosa_server.frontends.intake import PIECE_BYTES, STEP_S, TURN_S, UNREAD, TimedIntake
from rosa_server.frontends.limits import Meter

MANY = bytes(range(256)) * (PIECE_BYTES // 64)  # four pieces


class Transport:
    """Counts how often it was paused."""

    def __init__(self) -> None:
        self.paused = self.aborted = self.closed = False

    def pause_reading(self) -> None:
        assert not self.paused
        self.paused = True

    def resume_reading(self) -> None:
        assert self.paused
        self.paused = False

    def abort(self) -> None:
        self.aborted = True

    def close(self) -> None:
        self.closed = True


class Fed:
    """What a protocol was fed, which takes `piece_s` of computing for each piece."""

    def __init__(self, meter: Meter | None = None) -> None:
        self.transport, self.pieces, self.piece_s = Transport(), list[bytes](), 0.0
        self.meter = meter or Meter(1e6, 1e6)
        self.floods = 0
        self.intake = TimedIntake(self.transport, self._take, lambda: (self.meter,), self._flooded, 0.0)

    def _flooded(self) -> None:
        self.floods += 1
        self.intake.ended()

    def _take(self, piece: bytes) -> None:
        self.pieces.append(piece)
        end_s = time.thread_time() + self.piece_s
        while time.thread_time() < end_s:
            pass


def run(story: Callable[[Fed], Awaitable[None]], meter: Meter | None = None) -> None:
    async def told() -> None:
        await story(Fed(meter))

    asyncio.run(told())


async def turns(count: int = 10) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_what_takes_long_is_fed_in_turns_with_those_of_others_in_between() -> None:
    async def story(fed: Fed) -> None:
        fed.piece_s = 1.1 * TURN_S
        fed.intake.received(MANY)
        assert len(fed.pieces) == 1 and fed.transport.paused
        await turns()
        assert len(fed.pieces) == 4 and b"".join(fed.pieces) == MANY
        assert not fed.transport.paused

    run(story)


def test_nothing_is_fed_while_the_meter_says_wait() -> None:
    async def story(fed: Fed) -> None:
        fed.intake.received(b"dear")
        fed.intake.received(b"later")
        await turns()
        assert fed.pieces == [b"dear"] and fed.transport.paused
        fed.intake.ended()  # else the loop would go on waiting
        await turns()
        assert fed.pieces == [b"dear"]

    run(story, Meter(rate=STEP_S / 1000, burst=STEP_S / 2))


def test_a_small_message_neither_pauses_nor_waits() -> None:
    async def story(fed: Fed) -> None:
        for number in range(5):
            fed.intake.received(b"%d" % number)
            assert not fed.transport.paused
        assert fed.pieces == [b"0", b"1", b"2", b"3", b"4"]

    run(story)


@pytest.mark.parametrize("why", ["full", "unread"])
def test_a_protocol_that_has_enough_is_fed_no_more_until_it_says_so(why: str) -> None:
    async def story(fed: Fed) -> None:
        if why == "full":
            fed.intake.pause_reading()
        else:
            fed.intake.hold(UNREAD)
        fed.intake.received(MANY)
        await turns()
        assert fed.pieces == list[bytes]() and fed.transport.paused
        if why == "full":
            fed.intake.resume_reading()
        else:
            fed.intake.release(UNREAD)
        await turns()
        assert b"".join(fed.pieces) == MANY and not fed.transport.paused

    run(story)


def test_time_on_what_becomes_no_message_ends_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BESIDE_SHARE", 1e-9)
    monkeypatch.setattr(limits, "BESIDE_BURST_S", 0.01)

    async def story(fed: Fed) -> None:
        fed.piece_s = 0.006
        for number in range(20):  # each is a message
            fed.intake.received(b"%d" % number)
            fed.intake.message()
            await turns()
        assert fed.floods == 0
        for _ in range(3):
            fed.intake.received(b"ping")
            await turns()
        assert fed.floods == 1 and len(fed.pieces) == 22

    run(story)


def test_what_was_not_fed_when_the_connection_ends_is_dropped() -> None:
    async def story(fed: Fed) -> None:
        fed.piece_s = 1.1 * TURN_S
        fed.intake.received(MANY)
        fed.intake.ended()
        await turns()
        assert len(fed.pieces) == 1

    run(story)


def test_it_is_the_transport_for_everything_else() -> None:
    async def story(fed: Fed) -> None:
        fed.intake.abort()
        fed.intake.close()
        assert fed.transport.aborted and fed.transport.closed

    run(story)
