"""GR00T's policy protocol: a REQ socket of ZeroMQ, one msgpack map each way, in three dialects (`gr00t_words.py`)."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from typing import Any, cast

from rosa_client.robot.answer import Answer
from rosa_contract.config.frontends import AUTO
from rosa_server.frontends import limits
from rosa_server.frontends.clients import REFUSALS, Client, Clients, FrontendError, unless_gone, words_of
from rosa_server.frontends.door import ACCEPTED_AT_ONCE, doors
from rosa_server.frontends.gr00t_words import ARRAYS, N16, answered, asked, modality_config
from rosa_server.frontends.intake import UNREAD, TimedIntake
from rosa_server.frontends.zmtp import Peer, ZmtpError
from rosa_server.models.remote.arrays import Dialect, WireError, pack, unpack

UNAUTHORISED = "Unauthorized: Invalid API token"  # what GR00T's own server says
TURNED_AWAY_S = 0.2  # for the words to leave before the connection ends
STREAM_BYTES = 64 << 10  # read ahead of a connection
Message = tuple[list[bytes], bytes]


class Stream(asyncio.StreamReaderProtocol):
    """A connection as a stream, whose bytes are read as `intake.py` says."""

    def __init__(self, server: Gr00tServer) -> None:
        super().__init__(asyncio.StreamReader(limit=STREAM_BYTES), server.handle)
        self._server = server

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        server = self._server
        self._intake = intake = TimedIntake(
            transport,
            super().data_received,
            lambda: server.meters(intake),
            lambda: server.flooded(intake),
            server.max_message_mb,
        )
        super().connection_made(cast(asyncio.Transport, intake))

    def data_received(self, data: bytes) -> None:
        self._intake.received(data)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._intake.hold(UNREAD)  # heartbeats are answered too, whether or not anybody takes the answers

    def resume_writing(self) -> None:
        super().resume_writing()
        self._intake.release(UNREAD)

    def connection_lost(self, error: Exception | None) -> None:
        self._intake.ended()
        super().connection_lost(error)


class Gr00tServer:
    """Listening sockets and their clients, in one event loop."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._entrance = limits.Entrance()
        self._servers: list[asyncio.Server] = []
        self._open: set[asyncio.WriteTransport] = set()

    async def listen(self) -> Gr00tServer:
        """Accept clients from now on. Raises `OSError`."""
        host, port = self._clients.spec.frontend.address
        for door in doors(host, port, self._entrance, self._clients.refused):
            server = await asyncio.get_running_loop().create_server(
                lambda: Stream(self), sock=door, backlog=ACCEPTED_AT_ONCE
            )
            self._servers.append(server)
        return self

    @property
    def max_message_mb(self) -> float:
        """Of a client's message."""
        return self._clients.spec.frontend.max_message_mb

    @property
    def sockets(self) -> Sequence[Any]:
        """What it listens on."""
        return [one for server in self._servers for one in server.sockets]

    def close(self) -> None:
        """Accept nobody any more, and end every connection."""
        for server in self._servers:
            server.close()
        for transport in list(self._open):
            transport.abort()

    async def wait_closed(self) -> None:
        for server in self._servers:
            await server.wait_closed()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection until it ends."""
        address, transport = writer.get_extra_info("peername"), writer.transport
        self._open.add(transport)
        try:
            peer = Peer(reader, writer, int(self.max_message_mb * 1e6))
            async with asyncio.timeout(limits.OPEN_S):
                await peer.shake_hands()
            self._entrance.passed(address)
            try:
                client, leaves = self._clients.enter(transport, None)
            except FrontendError as error:
                await self._turn_away(peer, error)
                raise
            if isinstance(leaves, TimedIntake):
                leaves.abort()
            await self._serve(peer, client, cast(TimedIntake, transport))
        except (ZmtpError, FrontendError) as error:
            self._clients.refused(error.cause, str(error), address)
        except (EOFError, OSError):  # it has gone, or said nothing in time
            pass
        except Exception as error:  # a mistake here must not end other clients
            self._clients.failed(error, address)
        finally:
            self._entrance.passed(address)
            self._clients.leave(transport)
            self._open.discard(transport)
            transport.abort()  # not `close`, which would wait for a peer that does not read

    def meters(self, connection: TimedIntake) -> Sequence[limits.Meter]:
        """Of the time that reading from it takes."""
        client = self._clients.open.get(connection)
        return (self._clients.strangers,) if client is None else client.meters

    def flooded(self, connection: TimedIntake) -> None:
        """It sends what belongs to no message, without end."""
        self._clients.floods(connection, connection.get_extra_info("peername"))
        connection.abort()

    async def _turn_away(self, peer: Peer, error: FrontendError) -> None:
        """Tell a client why, as the answer to its first request."""
        async with asyncio.timeout(limits.OPEN_S):
            envelope, _ = await peer.receive()
            await peer.send(envelope, pack({"error": words_of(error)}, Dialect.NPY))
            await asyncio.sleep(TURNED_AWAY_S)

    async def _serve(self, peer: Peer, client: Client, intake: TimedIntake) -> None:
        reading = asyncio.ensure_future(peer.receive())
        dialect = ""
        try:
            while True:
                envelope, body = await reading
                intake.message()
                # Read on meanwhile: that is how one notices that the client has gone.
                reading = asyncio.ensure_future(peer.receive())
                if (wait_s := client.wait_s(time.monotonic())) > 0:
                    await asyncio.sleep(wait_s)
                reply, dialect = await self._answer(client, body, dialect, reading)
                try:
                    async with asyncio.timeout(limits.UNREAD_S):
                        await peer.send(envelope, reply)
                except TimeoutError:
                    raise FrontendError("not_reading", "it did not take its answer") from None
        finally:
            reading.cancel()
            with contextlib.suppress(asyncio.CancelledError, EOFError, OSError, ZmtpError):
                await reading

    async def _answer(
        self, client: Client, body: bytes, dialect: str, reading: asyncio.Future[Message]
    ) -> tuple[bytes, str]:
        """The reply, and the dialect that the client has shown."""
        try:
            said, dialect = await self._called(client, body, dialect, reading)
        except REFUSALS as error:
            self._clients.refused(error.cause, str(error))
            words = UNAUTHORISED if error.cause == "unauthorized" else words_of(error)
            return pack({"error": words}, Dialect.NPY), dialect
        return pack(said, ARRAYS[dialect or N16]), dialect

    async def _called(
        self, client: Client, body: bytes, dialect: str, reading: asyncio.Future[Message]
    ) -> tuple[Any, str]:
        started_s, spent_s = time.monotonic(), time.thread_time()
        try:
            request, arrays = unpack(body)
            if not isinstance(request, dict):
                raise WireError("bad_request", f"expected a map, got {type(request).__name__}")
            token = request.get("api_token")
            client.authorised(self._clients.keys_of(token if isinstance(token, str) else ""))
            endpoint = request.get("endpoint", "get_action")
            if not isinstance(endpoint, str):
                raise WireError("bad_request", "endpoint: expected a text")
            if endpoint != "get_action":
                return self._other(endpoint, dialect), dialect
            ask = asked(request.get("data"), arrays, dialect)
            limit = 1 if client.holds_key else self._clients.spec.frontend.max_batch
            if not 0 < ask.size <= limit:
                words = f"a batch of {ask.size}; at most {limit} (max_batch; with keys 1, the key's robot)"
                raise FrontendError("too_large", words)
            mapped = [
                self._clients.mapping.observation(ask.observation(number)) for number in range(ask.size)
            ]
        finally:
            client.handled(started_s, time.thread_time() - spent_s)
        answers = await self._all(client, mapped, reading)
        timing = {
            "infer_ms": (time.monotonic() - started_s) * 1000,
            "queue_ms": max(a.queue_ms for a in answers),
        }
        actions = [
            self._clients.mapping.actions(answer.actions, seen)
            for answer, (seen, _) in zip(answers, mapped, strict=True)
        ]
        return answered(ask, actions, {"server_timing": timing}), ask.dialect

    def _other(self, endpoint: str, dialect: str) -> Any:
        if endpoint == "ping":
            return {"status": "ok", "message": "Server is running"}
        if endpoint == "reset":
            return {}
        if endpoint == "get_modality_config":
            told = self._clients.spec.frontend.dialect
            return modality_config(self._clients.mapping, dialect or (N16 if told == AUTO else told))
        if endpoint == "kill":
            raise FrontendError("not_supported", "a client cannot end this server")
        raise FrontendError("not_supported", f"Unknown endpoint: {endpoint:.60}")

    async def _all(
        self, client: Client, mapped: list[tuple[dict[str, Any], str]], reading: asyncio.Future[Message]
    ) -> list[Answer]:
        """An answer per observation, each as a separate robot. The first failure ends all."""
        gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def ended(done: asyncio.Future[Message]) -> None:
            if not gone.done() and (done.cancelled() or done.exception() is not None):
                gone.set_result(None)

        reading.add_done_callback(ended)
        calls = [
            asyncio.ensure_future(unless_gone(client, seen, prompt, gone, number))
            for number, (seen, prompt) in enumerate(mapped)
        ]
        try:
            return list(await asyncio.gather(*calls))
        finally:
            reading.remove_done_callback(ended)
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)
