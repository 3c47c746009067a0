"""Who of a frontend's clients makes room for a newcomer."""

from __future__ import annotations

import asyncio
import time
from unittest.mock import MagicMock

import pytest

from rosa_contract.config.frontends import Frontend
from rosa_server.frontends.clients import Clients, FrontendError
from rosa_server.frontends.gr00t import Gr00tServer
from rosa_server.frontends.limits import LINES_EVERY_S
from rosa_server.frontends.spec import FrontendSpec
from rosa_server.frontends.zmtp import GREETING, command, frames, metadata


@pytest.fixture
def clients() -> Clients:
    frontend = Frontend("openpi", "pick", preset="droid", max_clients=3)
    return Clients(FrontendSpec("openpi", frontend, "tcp://127.0.0.1:1", 300.0))


def test_one_that_never_asked_makes_room_before_one_that_waits_for_its_first_answer(clients: Clients) -> None:
    asked, _ = clients.enter("asked", None)
    clients.enter("silent", None)
    clients.enter("later", None)
    asked.wait_s(asked.heard_s - 10.0)  # it was heard of before all others
    assert clients.enter("new", None)[1] == "silent"
    assert clients.enter("newer", None)[1] == "later"
    assert list(clients.open) == ["asked", "new", "newer"]


def test_of_those_that_asked_the_one_that_was_silent_for_the_longest_time_makes_room(
    clients: Clients,
) -> None:
    for now_s, name in ((7.0, "a"), (5.0, "b"), (6.0, "c")):
        clients.enter(name, None)[0].wait_s(now_s)
    assert clients.enter("new", None)[1] == "b"


def test_nobody_makes_room_who_has_had_an_answer(clients: Clients) -> None:
    for name in "abc":
        clients.enter(name, None)[0].answered = True
    with pytest.raises(FrontendError) as refused:
        clients.enter("new", None)
    assert refused.value.cause == "too_many_clients"


def test_no_robot_is_made_for_one_that_has_gone_while_its_message_waited(
    clients: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would stay at the gateway as long as the frontend runs, in a slot that others need."""
    monkeypatch.setattr(clients, "robot", lambda keys: pytest.fail("a robot that nobody closes"))
    client, _ = clients.enter("a", None)
    clients.leave("a")
    with pytest.raises(ConnectionResetError):
        asyncio.run(client.infer({}, "pick it"))


def test_a_mistake_that_a_client_causes_again_and_again_does_not_fill_the_log(
    clients: Clients, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(clients, "enter", lambda connection, keys: 1 / 0)

    async def connects() -> None:
        server = Gr00tServer(clients)
        reader = asyncio.StreamReader()
        reader.feed_data(GREETING + command(b"READY", metadata(Socket_Type=b"REQ")) + frames([b"", b"x"]))
        writer = MagicMock(get_extra_info=MagicMock(return_value=("127.0.0.1", 1)))
        await server.handle(reader, writer)

    begun_s = time.monotonic()
    for _ in range(50):
        asyncio.run(connects())
    assert {one.getMessage() for one in caplog.records} == {"frontend_failed"}
    assert len(caplog.records) <= 1 + (time.monotonic() - begun_s) / LINES_EVERY_S
    assert "division by zero" in caplog.records[0].__dict__["fields"]["error"]
