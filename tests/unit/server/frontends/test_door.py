"""A listening socket that hands on only whom the entrance lets in."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from rosa_server.frontends import limits
from rosa_server.frontends.door import REFUSED_AT_ONCE, Door, doors
from rosa_server.frontends.limits import Entrance

WAIT_S = 30.0
Refused = list[tuple[str, str]]


@contextmanager
def opened() -> Iterator[tuple[Door, Refused, ExitStack]]:
    refused: Refused = []
    with ExitStack() as closing:
        (door,) = doors("127.0.0.1", 0, Entrance(), lambda cause, why, peer: refused.append((cause, why)))
        closing.enter_context(door).listen(1)
        yield door, refused, closing


def connected(door: Door, closing: ExitStack, source: str = "127.0.0.1") -> socket.socket:
    one = socket.create_connection(door.getsockname(), timeout=WAIT_S, source_address=(source, 0))
    closing.enter_context(one)
    assert select.select([door], [], [], WAIT_S)[0]
    return one


def test_a_connection_is_handed_on_with_its_peer() -> None:
    with opened() as (door, refused, closing):
        theirs = connected(door, closing)
        ours, peer = door.accept()
        closing.enter_context(ours)
        assert peer == theirs.getsockname() and refused == [] and type(ours) is socket.socket
        with pytest.raises(BlockingIOError):
            door.accept()


@pytest.fixture
def two_of_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "NEW_AT_ONCE", 1.0)
    monkeypatch.setattr(limits, "NEW_PER_S", 1e-6)


@pytest.mark.usefixtures("two_of_an_address")
def test_whoever_is_refused_is_closed_unread_and_the_next_one_comes_in() -> None:
    with opened() as (door, refused, closing):
        crowd = [connected(door, closing, "127.0.0.2") for _ in range(3)]
        other = connected(door, closing, "127.0.0.3")
        ours = [closing.enter_context(door.accept()[0]) for _ in range(3)]
        assert [one.getpeername() for one in ours] == [
            one.getsockname() for one in (crowd[0], crowd[1], other)
        ]
        assert refused == [("too_many_connections", "too many new connections per second")]
        assert crowd[2].recv(1) == b""


@pytest.mark.usefixtures("two_of_an_address")
def test_after_some_refusals_it_is_the_turn_of_others() -> None:
    with opened() as (door, refused, closing):
        for _ in range(2 + REFUSED_AT_ONCE + 10):
            connected(door, closing)
        for _ in range(2):
            closing.enter_context(door.accept()[0])
        for total in (REFUSED_AT_ONCE, REFUSED_AT_ONCE + 10):
            with pytest.raises(BlockingIOError):
                door.accept()
            assert len(refused) == total


def test_the_oldest_in_its_handshake_finds_its_end() -> None:
    with opened() as (door, refused, closing):
        first = connected(door, closing)
        for _ in range(limits.MAX_PENDING):
            closing.enter_context(door.accept()[0])
            connected(door, closing)
        closing.enter_context(door.accept()[0])
        first.settimeout(WAIT_S)
        assert first.recv(1) == b"" and [cause for cause, _ in refused] == ["too_many_connections"]


def test_a_taken_address_is_said() -> None:
    with opened() as (door, _, _), pytest.raises(OSError, match=r"127\.0\.0\.1:\d+: Address already in use"):
        doors("127.0.0.1", door.getsockname()[1], Entrance(), lambda *_: None)
