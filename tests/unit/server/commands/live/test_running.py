"""What a command hears of a running server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import zmq

from rosa_contract.wire.packing import pack
from rosa_server.commands.live.running import Running
from rosa_server.serving.watching.hub import ABOUT, STATE, VERSION


@pytest.fixture
def pair() -> Iterator[tuple[Running, zmq.Socket[bytes]]]:
    """A command's end of a connection, and the server's."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    with context.socket(zmq.PAIR) as theirs, context.socket(zmq.PAIR) as ours:
        theirs.bind("inproc://server")
        ours.connect("inproc://server")
        yield Running(ours), theirs
    context.term()


def test_what_a_server_says_first_is_no_less_heard_because_it_shows_that_it_lives(
    pair: tuple[Running, zmq.Socket[bytes]],
) -> None:
    """It says of itself what it is once, and again only seconds later."""
    running, server = pair
    server.send_multipart([ABOUT, pack({"v": VERSION, "tasks": {"pick": {}}})])
    assert running.answers()
    assert running.about()["tasks"] == {"pick": {}}


def test_what_was_said_first_is_told_once(pair: tuple[Running, zmq.Socket[bytes]]) -> None:
    running, server = pair
    for topic in (ABOUT, STATE):
        server.send_multipart([topic, pack({"v": VERSION})])
    assert running.answers()
    assert [topic for topic, _ in running.news(0.2)] == [ABOUT, STATE]
    assert list(running.news(0.0)) == []
