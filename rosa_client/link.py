"""The robot's line to its gateway: one ZeroMQ DEALER socket, a greeting, and no promise that anybody answers.

Requests are never queued for an absent server: what cannot leave now is dropped, its deadline passes on the robot, and
the fallback runs. When the server is back the link says hello again by itself.
"""

from __future__ import annotations

import logging
from pathlib import Path

import zmq
import zmq.auth

from rosa_contract import codec
from rosa_contract.errors import CodecError, VersionError
from rosa_contract.messages import Bye, Hello, Refused, Request, Response, Welcome

HELLO_EVERY_S = 1.0  # until welcomed, and then without other traffic: the gateway takes it as a sign of life
SILENT_AFTER_S = 3.0  # nothing heard for so long: the server counts as lost
MAX_MESSAGE_BYTES = 64 << 20

log = logging.getLogger("rosa.link")


class GatewayLink:
    """Not thread-safe: one thread sends and receives. `ready` is true while the gateway has welcomed this robot."""

    def __init__(self, endpoint: str, hello: Hello, keys: str = "") -> None:
        """Connect to `endpoint`, such as tcp://gpu-box:5570. `keys`: folder with robot.key_secret and server.key."""
        self.endpoint = endpoint
        self.hello = hello
        self.ready = False
        self.reason = f"no answer from a gateway at {endpoint} yet"
        self.models: dict[str, str] = {}
        self.rates_hz: dict[str, float] = {}  # component -> calls per second that a schedule allows
        self.socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, 200)
        self.socket.setsockopt(zmq.SNDHWM, 8)
        self.socket.setsockopt(zmq.RCVHWM, 64)
        self.socket.setsockopt(zmq.IMMEDIATE, 1)  # queue nothing for a server that is not there
        self.socket.setsockopt(zmq.RECONNECT_IVL, 100)
        self.socket.setsockopt(zmq.RECONNECT_IVL_MAX, 1000)
        self.socket.setsockopt(zmq.MAXMSGSIZE, MAX_MESSAGE_BYTES)
        if keys:
            public, secret = zmq.auth.load_certificate(Path(keys) / "robot.key_secret")
            server, _ = zmq.auth.load_certificate(Path(keys) / "server.key")
            self.socket.curve_publickey, self.socket.curve_secretkey = public, secret
            self.socket.curve_serverkey = server
        self.socket.connect(endpoint)
        self._last_hello_s = -1e9  # tried: an absent server is greeted once a second, not once a period
        self._last_sent_s = -1e9
        self._last_heard_s = -1e9

    def send(self, request: Request, now_s: float) -> bool:
        """Send without waiting; false when it cannot leave now. Raises `CodecError` for an unsendable request."""
        return self._send(codec.encode(request), now_s)

    def poll(self, timeout_s: float, now_s: float) -> list[Response]:
        """Wait up to `timeout_s` for answers; keeps the greeting alive. Bad messages are logged and dropped."""
        if now_s - self._last_heard_s > SILENT_AFTER_S and self.ready:
            self._lost(f"nothing heard from the gateway at {self.endpoint} for {SILENT_AFTER_S:g} s")
        # Only a welcome makes it ready, so requests that leave meanwhile must not put off the hello.
        silent_since_s = max(self._last_hello_s, self._last_sent_s) if self.ready else self._last_hello_s
        if now_s - silent_since_s >= HELLO_EVERY_S:
            self._last_hello_s = now_s
            self._send(codec.encode(self.hello), now_s)
        answers: list[Response] = []
        if not self.socket.poll(max(0, round(timeout_s * 1000))):
            return answers
        while True:
            try:
                frames = self.socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return answers
            self._last_heard_s = now_s
            self._take(frames, answers)

    def close(self) -> None:
        """Say goodbye and close the socket."""
        self._send(codec.encode(Bye()), self._last_sent_s)
        self.socket.close()
        self.ready = False

    def _send(self, frames: list[codec.Frame], now_s: float) -> bool:
        try:
            self.socket.send_multipart(frames, zmq.NOBLOCK)  # pyzmq's copy=False was slower for these sizes
        except zmq.Again:
            return False
        self._last_sent_s = now_s
        return True

    def _take(self, frames: list[bytes], answers: list[Response]) -> None:
        try:
            message = codec.decode(frames)
        except VersionError as error:
            self._lost(str(error))
            return
        except CodecError as error:
            log.warning("dropped a message from the gateway: %s", error)
            return
        if isinstance(message, Response):
            answers.append(message)
        elif isinstance(message, Welcome):
            if not self.ready:
                log.info("welcomed by %s", self.endpoint)
            self.ready, self.reason, self.models = True, "", dict(message.models)
            self.rates_hz = dict(message.rates_hz)
        elif isinstance(message, Refused):
            self._refused(message)
        else:
            log.warning("dropped an unexpected %s from the gateway", type(message).__name__)

    def _refused(self, refusal: Refused) -> None:
        words = f"{refusal.cause}: {refusal.reason}"
        if (
            refusal.cause == "bad_message" and self.ready
        ):  # one message was damaged on its way; its deadline passes
            log.warning("the gateway could not read a message: %s", words)
            return
        self._lost(words)
        if refusal.cause == "hello_required":
            self._last_hello_s = -1e9  # greet at the next poll

    def _lost(self, reason: str) -> None:
        if reason != self.reason:
            log.warning("not connected: %s", reason)
        self.ready, self.reason = False, reason
