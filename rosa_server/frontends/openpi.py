"""openpi's policy protocol: WebSocket, msgpack with arrays, the metadata first, errors as a text frame and close 1011.

Written from what openpi's client and server do on the wire (openpi-client 0.1.2). The path
`/v1/realtime/robot/openpi` speaks vLLM-Omni's variant: its metadata, `reset`, and bare arrays as answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import http
import logging
import ssl
import time
from typing import Any, cast

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode
from websockets.http11 import Request, Response

from rosa_contract.errors import CausedError
from rosa_contract.keyfile import RobotKeys
from rosa_server.frontends import limits
from rosa_server.frontends.clients import REFUSALS, Client, Clients, FrontendError, unless_gone, words_of
from rosa_server.frontends.door import ACCEPTED_AT_ONCE, doors
from rosa_server.frontends.intake import UNREAD, TimedIntake
from rosa_server.models.remote.arrays import Dialect, WireError, pack, unpack

REALTIME = "/v1/realtime/robot/openpi"
HEALTH = "/healthz"
PING_EVERY_S = 20.0
PONG_WITHIN_S = 60.0
CLOSE_S = 2.0
SCHEME = "api-key "


class OpenpiServer:
    """Listening sockets and their clients, in one event loop."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._entrance = limits.Entrance()
        self._servers: list[Server] = []
        self._quiet = logging.getLogger("rosa.frontends.websockets")
        self._quiet.disabled = True  # a line per broken handshake would let anybody fill the disk

    async def listen(self) -> OpenpiServer:
        """Accept clients from now on. Raises `OSError` and `ssl.SSLError`."""
        spec = self._clients.spec.frontend
        host, port = spec.address
        tls = None
        if spec.tls_certificate:
            tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            tls.load_cert_chain(spec.tls_certificate, spec.tls_key)
        outer = self

        class Connection(ServerConnection):
            """Its bytes are read as `intake.py` says."""

            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                self.intake = TimedIntake(
                    transport,
                    super().data_received,
                    lambda: outer._meters(self),
                    lambda: outer._flooded(self),
                    spec.max_message_mb,
                )
                super().connection_made(cast(asyncio.Transport, self.intake))

            def data_received(self, data: bytes) -> None:
                self.intake.received(data)

            def pause_writing(self) -> None:
                super().pause_writing()
                self.intake.hold(UNREAD)  # pings are answered too, whether or not anybody takes the answers

            def resume_writing(self) -> None:
                super().resume_writing()
                self.intake.release(UNREAD)

            def connection_lost(self, error: Exception | None) -> None:
                self.intake.ended()
                super().connection_lost(error)
                outer._entrance.passed(self.remote_address)
                outer._clients.leave(self)

        for door in doors(host, port, self._entrance, self._clients.refused):
            server = await serve(
                self._handle,
                sock=door,
                backlog=ACCEPTED_AT_ONCE,
                ssl=tls,
                origins=[None],  # no web page: those send where they come from
                process_request=self._enter,
                compression=None,
                max_size=int(spec.max_message_mb * 1e6),
                max_queue=1,
                ping_interval=PING_EVERY_S,
                ping_timeout=PONG_WITHIN_S,
                open_timeout=limits.OPEN_S,
                close_timeout=CLOSE_S,
                server_header=None,
                logger=self._quiet,
                create_connection=Connection,
            )
            self._servers.append(server)
        return self

    @property
    def sockets(self) -> list[Any]:
        """What it listens on."""
        return [one for server in self._servers for one in server.sockets]

    def close(self) -> None:
        """Accept nobody any more, and say goodbye to the others."""
        for server in self._servers:
            server.close()

    async def wait_closed(self) -> None:
        for server in self._servers:
            await server.wait_closed()

    def _meters(self, connection: ServerConnection) -> tuple[limits.Meter, ...]:
        client = self._clients.open.get(connection)
        return (self._clients.strangers,) if client is None else client.meters

    def _flooded(self, connection: ServerConnection) -> None:
        self._clients.floods(connection, connection.remote_address)
        connection.transport.abort()

    def _enter(self, connection: ServerConnection, request: Request) -> Response | None:
        """Answer to the HTTP request: None goes on to the WebSocket."""
        self._entrance.passed(connection.remote_address)
        if request.path.partition("?")[0] == HEALTH:
            return connection.respond(http.HTTPStatus.OK, "OK\n")
        try:
            _, leaves = self._clients.enter(connection, self._keys(request))
        except FrontendError as error:
            self._clients.refused(error.cause, str(error), connection.remote_address)
            status = (
                http.HTTPStatus.UNAUTHORIZED
                if error.cause == "unauthorized"
                else http.HTTPStatus.SERVICE_UNAVAILABLE
            )
            return connection.respond(status, f"{words_of(error)}\n")
        if isinstance(leaves, ServerConnection):
            leaves.transport.abort()
        return None

    def _keys(self, request: Request) -> tuple[str, RobotKeys] | None:
        said = request.headers.get_all("Authorization")
        key = said[0][len(SCHEME) :] if len(said) == 1 and said[0].lower().startswith(SCHEME) else ""
        return self._clients.keys_of(key.strip())

    async def _handle(self, connection: ServerConnection) -> None:
        try:
            client = self._clients.open.get(connection)
            if client is not None and connection.request is not None:
                realtime = connection.request.path.partition("?")[0].rstrip("/") == REALTIME
                await self._serve(connection, client, realtime)
        except REFUSALS as error:  # before OSError, which a missed deadline is too
            await self._refuse(connection, error)
        except (ConnectionClosed, OSError):
            pass  # it has gone
        except Exception as error:  # a mistake here must not end other clients
            self._clients.failed(error, connection.remote_address)
            await self._tell(connection, FrontendError("internal", type(error).__name__))
        finally:
            self._entrance.passed(connection.remote_address)
            self._clients.leave(connection)

    async def _serve(self, connection: ServerConnection, client: Client, realtime: bool) -> None:
        gone = asyncio.ensure_future(connection.wait_closed())
        last_ms: float | None = None
        try:
            await self._send(connection, pack(self._metadata(realtime), Dialect.OPENPI))
            while True:
                frame = await connection.recv()
                cast(TimedIntake, connection.transport).message()
                began_s = time.monotonic()
                if (wait_s := client.wait_s(began_s)) > 0:
                    await asyncio.sleep(wait_s)
                answer = await self._answer(client, frame, realtime, gone, last_ms)
                await self._send(connection, answer)
                last_ms = (time.monotonic() - began_s) * 1000
        finally:
            gone.cancel()

    async def _answer(
        self,
        client: Client,
        frame: str | bytes,
        realtime: bool,
        gone: asyncio.Future[None],
        last_ms: float | None,
    ) -> str | bytes:
        started_s, spent_s = time.monotonic(), time.thread_time()
        try:
            if isinstance(frame, str):
                raise WireError("bad_request", "expected a binary frame with msgpack, got text")
            sent, _ = unpack(frame)
            if not isinstance(sent, dict):
                raise WireError("bad_request", f"expected a map of an observation, got {type(sent).__name__}")
            endpoint, session = sent.pop("endpoint", "infer"), sent.pop("session_id", "")
            if not isinstance(session, str) or len(session) > 128:
                raise WireError("bad_request", "session_id: expected a text of at most 128 characters")
            if not isinstance(endpoint, str):
                raise WireError("bad_request", "endpoint: expected a text")
            if endpoint == "reset":
                return "reset successful"
            if endpoint != "infer":
                raise FrontendError("not_supported", f"endpoint {endpoint!r:.60}; there are infer and reset")
            seen, prompt = self._clients.mapping.observation(sent)
        finally:
            client.handled(started_s, time.thread_time() - spent_s)
        answer = await unless_gone(client, seen, prompt, gone)
        arrays = self._clients.mapping.actions(answer.actions, seen)
        if realtime:
            only = next(iter(arrays.values())) if len(arrays) == 1 else arrays
            return pack(only, Dialect.OPENPI)
        timing = {"infer_ms": (time.monotonic() - started_s) * 1000, "queue_ms": answer.queue_ms}
        if last_ms is not None:
            timing["prev_total_ms"] = last_ms
        told = {**arrays, "policy_timing": {"infer_ms": answer.inference_ms}, "server_timing": timing}
        return pack(told, Dialect.OPENPI)

    async def _send(self, connection: ServerConnection, frame: str | bytes) -> None:
        try:
            async with asyncio.timeout(limits.UNREAD_S):
                await connection.send(frame)
        except TimeoutError:
            self._clients.refused("not_reading", "it did not take its answer", connection.remote_address)
            connection.transport.abort()
            raise ConnectionAbortedError("not reading") from None

    async def _refuse(self, connection: ServerConnection, error: CausedError) -> None:
        self._clients.refused(error.cause, str(error), connection.remote_address)
        await self._tell(connection, error)

    async def _tell(self, connection: ServerConnection, error: CausedError) -> None:
        with contextlib.suppress(ConnectionClosed, OSError):
            await self._send(connection, words_of(error))
            await connection.close(CloseCode.INTERNAL_ERROR, error.cause[:120])

    def _metadata(self, realtime: bool) -> dict[str, Any]:
        spec = self._clients.mapping.spec
        if not realtime:
            return dict(spec.metadata)
        wrist = [camera for camera in spec.images if "wrist" in camera or "wrist" in spec.images[camera].key]
        first = next(iter(spec.images.values()), None)
        return {
            "image_resolution": [first.height, first.width] if first else [0, 0],
            "n_external_cameras": len(spec.images) - len(wrist),
            "needs_wrist_camera": bool(wrist),
            "needs_stereo_camera": False,
            "needs_session_id": False,
            "action_space": "joint_position",
            **spec.metadata,
        }
