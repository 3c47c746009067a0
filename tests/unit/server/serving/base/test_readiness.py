"""Nothing that has come is overlooked, whatever was done with a socket since it was asked last."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from threading import Thread

import pytest
import zmq
from hypothesis import given, settings
from hypothesis import strategies as st

from rosa_server.serving.base.readiness import Readiness

LIMIT_MS = 60_000  # nothing here takes so long
Sockets = list[zmq.Socket[bytes]]


@contextmanager
def pairs(count: int) -> Iterator[tuple[Sockets, Sockets]]:
    """So many connected sockets and their peers; what one end sends is there when `send` returns."""
    with zmq.Context() as context:
        ours, theirs = [context.socket(zmq.PAIR) for _ in range(count)], []
        try:
            for number, end in enumerate(ours):
                end.bind(f"inproc://{number}")
                theirs.append(context.socket(zmq.PAIR))
                theirs[-1].connect(f"inproc://{number}")
            yield ours, theirs
        finally:
            for end in ours + theirs:
                end.close(linger=0)


def test_a_socket_is_named_until_it_is_found_empty() -> None:
    with pairs(2) as (ours, theirs):
        readiness = Readiness()
        for socket in ours:
            readiness.register(socket, asked_always=False)
        assert readiness.wait(0) == []
        theirs[1].send(b"one")
        theirs[1].send(b"two")
        assert readiness.wait(LIMIT_MS) == [ours[1]]
        ours[1].recv()
        assert readiness.wait(LIMIT_MS) == [ours[1]], "one is left, and its descriptor says nothing of it"
        ours[1].recv()
        assert readiness.wait(0) == []


def test_what_a_send_takes_from_the_descriptor_unseen_is_found() -> None:
    with pairs(1) as ([ours], [theirs]):
        readiness = Readiness()
        fd = readiness.register(ours, asked_always=False)
        assert readiness.wait(0) == []
        theirs.send(b"come")
        ours.getsockopt(zmq.EVENTS)  # takes the command, as sending may
        readiness.used(fd)
        assert readiness.wait(LIMIT_MS) == [ours]


def test_a_socket_that_others_use_is_asked_before_each_wait() -> None:
    with pairs(1) as ([ours], [theirs]):
        readiness = Readiness()
        readiness.register(ours)
        assert readiness.wait(0) == []
        theirs.send(b"come")
        ours.getsockopt(zmq.EVENTS)
        assert readiness.wait(LIMIT_MS) == [ours]


def test_a_socket_that_its_reader_found_empty_wakes_again() -> None:
    with pairs(1) as ([ours], [theirs]):
        readiness = Readiness()
        fd = readiness.register(ours, asked_always=False)
        theirs.send(b"one")
        assert readiness.wait(LIMIT_MS) == [ours]
        ours.recv()
        assert not ours.getsockopt(zmq.EVENTS) & zmq.POLLIN
        readiness.empty(fd)
        sender = Thread(target=theirs.send, args=(b"two",))
        sender.start()
        assert readiness.wait(LIMIT_MS) == [ours]
        sender.join(LIMIT_MS / 1000)


def test_a_descriptor_is_named_while_it_is_readable_and_when_its_other_end_is_closed() -> None:
    reader, writer = os.pipe()
    try:
        readiness = Readiness()
        assert readiness.register(reader) == reader
        assert readiness.wait(0) == []
        os.write(writer, b"x")
        assert readiness.wait(LIMIT_MS) == readiness.wait(LIMIT_MS) == [reader]
        os.read(reader, 1)
        assert readiness.wait(0) == []
        os.close(writer)
        assert readiness.wait(LIMIT_MS) == [reader]
        readiness.unregister(reader)
        assert readiness.wait(0) == []
    finally:
        os.close(reader)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(("comes", "is sent", "is read", "wait")), st.integers(0, 1)), max_size=60
    ),
    st.sampled_from((0.0, 0.001)),
)
def test_whoever_has_something_is_named_in_any_order_of_events(
    events: list[tuple[str, int]], awake_s: float
) -> None:
    with pairs(2) as (ours, theirs):
        readiness = Readiness(awake_s)
        fds = [readiness.register(socket, asked_always=False) for socket in ours]
        waiting = [0, 0]
        for event, number in (*events, ("wait", 0)):
            if event == "comes":
                theirs[number].send(b"come")
                waiting[number] += 1
            elif event == "is sent":
                ours[number].send(b"sent")
                readiness.used(fds[number])
            elif event == "is read" and waiting[number]:
                ours[number].recv()
                readiness.used(fds[number])
                waiting[number] -= 1
                if not ours[number].getsockopt(zmq.EVENTS) & zmq.POLLIN:
                    readiness.empty(fds[number])
            elif event == "wait":
                found = readiness.wait(LIMIT_MS if any(waiting) else 0)
                assert {ours.index(one) for one in found} == {n for n in (0, 1) if waiting[n]}


class Asked:
    """`select.poll`, with the timeouts that it was asked for; it finds nothing by itself."""

    def __init__(self) -> None:
        self.timeouts_ms: list[int] = []
        self.come: list[tuple[int, int]] = []

    def register(self, fd: int, events: int) -> None:
        pass

    def poll(self, timeout_ms: int) -> list[tuple[int, int]]:
        self.timeouts_ms.append(timeout_ms)
        return self.come


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    poll = Asked()
    monkeypatch.setattr("rosa_server.serving.base.readiness.select.poll", lambda: poll)
    return poll


def awake(seconds: float) -> Readiness:
    """One whose clock goes on by a millisecond whenever it is looked at."""
    readiness = Readiness(seconds, (turn / 1000 for turn in count()).__next__)
    readiness.register(0)
    return readiness


def test_for_a_moment_after_something_came_it_does_not_sleep(asked: Asked) -> None:
    readiness, asked.come = awake(0.003), [(0, 1)]
    assert readiness.wait(20) == [0]
    asked.come, asked.timeouts_ms = [], []
    assert readiness.wait(20) == []
    *without_sleep, last = asked.timeouts_ms
    assert without_sleep and not any(without_sleep)
    assert last == 20 - len(without_sleep), "the wait as a whole is no longer than it was to be"


def test_it_sleeps_at_once_where_nothing_came_lately(asked: Asked) -> None:
    readiness = awake(0.003)
    readiness.wait(20)
    readiness.wait(20)
    assert asked.timeouts_ms == [20, 20]


def test_it_is_never_awake_for_longer_than_it_is_to_wait(asked: Asked) -> None:
    readiness, asked.come = awake(5.0), [(0, 1)]
    readiness.wait(20)
    asked.come, asked.timeouts_ms = [], []
    readiness.wait(4)
    assert asked.timeouts_ms == [0] * 4 + [0]


def test_what_comes_while_it_is_awake_is_named(asked: Asked) -> None:
    readiness, asked.come = awake(0.003), [(0, 1)]
    assert readiness.wait(20) == [0]
    asked.timeouts_ms = []
    assert readiness.wait(20) == [0]
    assert asked.timeouts_ms == [0]
