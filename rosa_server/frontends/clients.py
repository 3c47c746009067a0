"""A frontend's clients, each a robot at the gateway: admitted, queued, batched and limited like any other."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, ClassVar

import zmq
from zmq.utils import z85

from rosa_client.robot.aio import AsyncRobot
from rosa_client.robot.answer import Answer
from rosa_client.robot.errors import RobotError
from rosa_contract.errors import CausedError
from rosa_contract.keyfile import SERVER, RobotKeys, read_keys
from rosa_server.frontends import limits
from rosa_server.frontends.limits import Meter
from rosa_server.frontends.mapping import ClientMapping, MappingError
from rosa_server.frontends.spec import FrontendSpec, clients_of
from rosa_server.models.remote.arrays import Array, WireError
from rosa_server.serving.base import log
from rosa_server.serving.edge.access import KeyRing

CONNECT_WITHIN_S = 30.0  # a first call waits for models that are still loading


class FrontendError(CausedError):
    """A client is refused by the frontend itself."""

    CAUSES: ClassVar = {
        "unauthorized": "no API key, or none that belongs to a robot of the key folder",
        "too_many_clients": "as many clients as the frontend takes are connected",
        "too_many_connections": "more connections than the frontend looks at",
        "flooding": "frames that belong to no message, such as pings, without end",
        "not_reading": "the client did not take its answer",
        "not_supported": "a part of the protocol that ROSA does not have",
        "too_large": "a message above `max_message_mb`, or a batch above `max_batch`",
        "shutting_down": "the server is shutting down",
        "internal": "the frontend failed; the server's log says how",
    }


REFUSALS = (FrontendError, WireError, MappingError, RobotError)  # what is said to a client, with its cause


class Client:
    """One connection of a client. `robots` of it are made when it has observed something."""

    def __init__(self, frontend: Clients, robot_keys: tuple[str, RobotKeys] | None) -> None:
        self._frontend, self._keys = frontend, robot_keys
        self._robots: list[AsyncRobot] = []
        self._time = Meter(limits.CLIENT_SHARE, limits.CLIENT_BURST_S)
        self._calls = Meter(frontend.spec.frontend.max_rate_hz, 2.0)
        self._gone = False
        self.heard_s = time.monotonic()
        self.asked = self.answered = False  # until it has had an answer it is a stranger

    async def infer(self, seen: Mapping[str, Array], prompt: str, number: int = 0) -> Answer:
        """Ask as this client's robot with this number. Raises `RobotError`; `ConnectionResetError` once it has gone."""
        while len(self._robots) <= number:
            if self._gone:  # while its message waited; nobody would say goodbye for a robot that is made now
                raise ConnectionResetError("the client has gone")
            new = self._frontend.new_robots
            if not self.answered and (wait_s := new.wait_s(time.monotonic())) > 0:
                await asyncio.sleep(wait_s)
                continue
            new.spend(time.monotonic(), 0.0 if self.answered else 1.0)
            self._robots.append(self._frontend.robot(self._keys))
        spec = self._frontend.spec
        component = spec.frontend.component
        answer = await self._robots[number].infer(seen, prompt=prompt, component=component)
        self.answered = True
        return answer

    @property
    def holds_key(self) -> bool:
        """Whether it speaks as the one robot whose key it has."""
        return self._keys is not None

    def authorised(self, keys: tuple[str, RobotKeys] | None) -> None:
        """It has said whose key it has; its robots of another key leave."""
        if keys != self._keys:
            self._close_robots()
            self._keys = keys

    @property
    def meters(self) -> tuple[Meter, ...]:
        """Of the frontend's time that it takes."""
        return (self._time,) if self.answered else (self._time, self._frontend.strangers)

    def wait_s(self, now_s: float) -> float:
        """How long until its next message is read."""
        self.heard_s, self.asked = now_s, True
        return max(meter.wait_s(now_s) for meter in (self._calls, *self.meters))

    def handled(self, now_s: float, spent_s: float) -> None:
        """Handling one of its messages took this much of the frontend's time."""
        self._calls.spend(now_s, 1.0)
        for meter in self.meters:
            meter.spend(now_s, spent_s)

    def close(self) -> None:
        """It has gone, and its robots with it."""
        self._gone = True
        self._close_robots()

    def _close_robots(self) -> None:
        for robot in self._robots:
            robot.close()
        self._robots.clear()


class Clients:
    """All clients of one frontend: who may come in, and what is counted."""

    def __init__(self, spec: FrontendSpec) -> None:
        """Raises `AccessError` and `KeyFileError` for a key folder that cannot be used."""
        self.spec = spec
        self.mapping = ClientMapping(spec.frontend)
        self.strangers = Meter(limits.STRANGERS_SHARE, limits.STRANGERS_BURST_S)
        self.new_robots = Meter(limits.NEW_ROBOTS_PER_S, float(spec.frontend.max_clients))
        self._ring = KeyRing(spec.keys) if spec.keys else None
        self._server_key = read_keys(self._ring.folder / f"{SERVER}.key")["public"] if self._ring else b""
        self._numbers = itertools.count(1)
        self._refused: Counter[str] = Counter()
        self._told: dict[str, Any] = {}
        self._next_line_s = 0.0
        self._seldom = log.Seldom(limits.LINES_EVERY_S)
        self.open: dict[object, Client] = {}  # by whatever the protocol calls a connection

    def keys_of(self, api_key: str) -> tuple[str, RobotKeys] | None:
        """The robot whose secret key this is, and its keys; None where the server has no keys.

        Raises `FrontendError` (`unauthorized`).
        """
        if self._ring is None:
            return None
        with suppress(ValueError, zmq.ZMQError):  # no Z85 of 32 bytes
            secret = api_key.encode("ascii")
            public = zmq.curve_public(secret) if len(secret) == 40 else b""
            robot = self._ring.robot_of(z85.decode(public)) if public else None
            if robot is not None:
                return robot, RobotKeys(public, secret, self._server_key)
        raise FrontendError(
            "unauthorized", "the API key must be the secret key of a robot that this server knows"
        )

    def robot(self, keys: tuple[str, RobotKeys] | None) -> AsyncRobot:
        """A new robot at the gateway."""
        spec = self.spec
        name = keys[0] if keys else f"{clients_of(spec.name, spec.node)}-{spec.life}.{next(self._numbers)}"
        return AsyncRobot(
            spec.gateway,
            spec.frontend.task,
            name=name,
            keys=keys[1] if keys else "",
            deadline_ms=spec.slo_ms,
            connect_within_s=CONNECT_WITHIN_S,
            encoding="rgb8",
            resumes=False,
        )

    def enter(self, connection: object, keys: tuple[str, RobotKeys] | None) -> tuple[Client, object | None]:
        """A client comes in. Returns it, and the connection that has to make room for it.

        Raises `FrontendError` (`too_many_clients`) where every other client has had an answer.
        """
        leaves: object | None = None
        if len(self.open) >= self.spec.frontend.max_clients:
            strangers = [key for key, client in self.open.items() if not client.answered]
            if not strangers:
                words = f"{len(self.open)} clients are connected, and no more may be (max_clients)"
                raise FrontendError("too_many_clients", words)
            # One that has asked waits for an answer; of a crowd that says nothing, many more come meanwhile.
            leaves = min(strangers, key=lambda key: (self.open[key].asked, self.open[key].heard_s))
            self.leave(leaves)
            self.refused("too_many_clients", "it has had no answer yet and was silent for the longest time")
        self.open[connection] = client = Client(self, keys)
        return client, leaves

    def leave(self, connection: object) -> None:
        """A client has gone. May be called twice."""
        if (client := self.open.pop(connection, None)) is not None:
            client.close()

    def refused(self, cause: str, reason: str, peer: object = "") -> None:
        """Count a refusal, and log it now and then."""
        self._refused[cause] += 1
        if self._seldom.due(cause):
            log.warning(
                "client_refused", frontend=self.spec.name, cause=cause, reason=reason[:500], peer=str(peer)
            )

    def failed(self, error: Exception, peer: object = "") -> None:
        """Count a mistake of this frontend, which ends no other client, and log it now and then: a client that has
        found one can cause it as often as it likes."""
        self._refused["internal"] += 1
        if self._seldom.due("internal"):
            log.error("frontend_failed", frontend=self.spec.name, error=repr(error)[:500], peer=str(peer))

    def floods(self, connection: object, peer: object) -> None:
        """A connection sends what belongs to no message, without end; its transport ends it."""
        self.leave(connection)
        self.refused("flooding", "it sends what belongs to no message", peer)

    def report(self, now_s: float) -> None:
        """Tell the server what is counted, at most once a second, when it has changed."""
        told = {"clients": len(self.open), "refused": dict(self._refused)}
        if self.spec.status_fd >= 0 and told != self._told and now_s >= self._next_line_s:
            self._told, self._next_line_s = told, now_s + 1.0
            tell(self.spec, told)

    def close(self) -> None:
        for connection in list(self.open):
            self.leave(connection)


def tell(spec: FrontendSpec, what: Mapping[str, Any]) -> None:
    """A line for the server. It is lost where nobody reads."""
    if spec.status_fd >= 0:
        with suppress(OSError):
            os.write(spec.status_fd, json.dumps(what).encode() + b"\n")


def words_of(error: CausedError) -> str:
    """A refusal as a client gets it: the cause first, for programs."""
    return f"{error.cause}: {error}"


async def unless_gone(
    client: Client,
    seen: Mapping[str, Array],
    prompt: str,
    gone: asyncio.Future[None],
    number: int = 0,
) -> Answer:
    """The answer to an observation; the call is cancelled when the client goes."""
    call = asyncio.ensure_future(client.infer(seen, prompt, number))
    try:
        await asyncio.wait((call, gone), return_when=asyncio.FIRST_COMPLETED)
        if not call.done():
            raise ConnectionResetError("the client has gone")
        return call.result()
    finally:
        if not call.done():
            call.cancel()
            with suppress(asyncio.CancelledError, RobotError):
                await call
