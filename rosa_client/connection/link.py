"""The robot's connection to its gateway: one ZeroMQ DEALER socket and a greeting.

Requests are never queued for an absent server: what cannot leave now is dropped, its deadline passes on the robot, and
the fallback runs. When the server is back the link says hello again by itself (`greeting.py`). With several gateways
it goes to the next one when its own is lost (`gateways.py`): at once when the connection ends, after a second when the
other machine is silent. A session lasts no longer than its connection.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from dataclasses import replace

import zmq

from rosa_client.connection.gateways import KnownGateways
from rosa_client.connection.greeting import HELLO_REQUIRED, Greeting
from rosa_client.connection.handshakes import Handshakes
from rosa_client.connection.session_token import SessionToken
from rosa_contract.endpoint import endpoint_problem, gateways_of, is_loopback
from rosa_contract.errors import CodecError, VersionError
from rosa_contract.keyfile import RobotKeys, load_robot_keys
from rosa_contract.wire import codec
from rosa_contract.wire.messages import (
    Bye,
    Cancel,
    Decided,
    Hello,
    Ready,
    Request,
    Response,
    Status,
    TaskEnds,
)

MAX_MESSAGE_BYTES = 64 << 20
LOOKS_EVERY_S = 0.05
HEARTBEAT_EVERY_MS, HEARTBEAT_MISSING_MS = 250, 1000  # where there is another gateway to go to

log = logging.getLogger("rosa.link")


class GatewayLink(Greeting):
    """Not thread-safe: one thread sends and receives. `ready` is true while the gateway has welcomed this robot."""

    def __init__(
        self, endpoint: str, hello: Hello, keys: str | RobotKeys = "", token: SessionToken | None = None
    ) -> None:
        """Connect to `endpoint`, such as tcp://gpu-box:5570; several, with commas between them, are tried in turn.

        `keys`: key folder, or the keys; empty: no encryption. `token`: where the session's token is kept, so that a
        process that is started anew resumes under its name. Raises `KeyFileError` for keys that cannot be used.
        """
        endpoints = gateways_of(endpoint)
        self._gateways, self._told = KnownGateways(endpoints), frozenset(endpoints)
        self._learned: Sequence[str] = ()  # what it has said last of the gateways of its schedule
        self._looked_s = -1e9  # whether the connection lasts
        self._stored = {one: None if token is None else token.at(one) for one in endpoints}
        self._token = self._stored[endpoints[0]]
        super().__init__(
            endpoints[0], hello if self._token is None else replace(hello, token=self._token.load())
        )
        own = keys if isinstance(keys, RobotKeys) else load_robot_keys(keys, hello.robot_id) if keys else None
        self.socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, 200)
        self.socket.setsockopt(zmq.SNDHWM, 8)
        self.socket.setsockopt(zmq.RCVHWM, 64)
        self.socket.setsockopt(zmq.IMMEDIATE, 1)  # queue nothing for an absent server
        self.socket.setsockopt(zmq.RECONNECT_IVL, 100)
        self.socket.setsockopt(zmq.RECONNECT_IVL_MAX, 1000)
        self.socket.setsockopt(zmq.MAXMSGSIZE, MAX_MESSAGE_BYTES)
        if own is not None:
            self.socket.setsockopt(zmq.CURVE_PUBLICKEY, own.public)
            self.socket.setsockopt(zmq.CURVE_SECRETKEY, own.secret)
            self.socket.setsockopt(zmq.CURVE_SERVERKEY, own.server)
        if len(endpoints) > 1:
            self._beat()
        self._encrypted = own is not None
        self.proves_server = own is not None or all(map(is_loopback, endpoints))
        self._handshakes = Handshakes(self.socket, self.endpoint, encrypted=self._encrypted)
        self.socket.connect(self.endpoint)

    def send(self, request: Request, now_s: float) -> bool:
        """Send without waiting; false when it cannot leave now. Raises `CodecError` for an unsendable request."""
        budget_ms = self.budget_ms(now_s, request.request_id, request.budget_ms)
        request = replace(self.fitting(request), budget_ms=budget_ms)
        frames = codec.encode(request)
        if len(frames[0]) > codec.MAX_ROBOT_HEADER_BYTES:  # a gateway would not say so to this call
            words = f"at most {codec.MAX_ROBOT_HEADER_BYTES} bytes of prompt and state, got {len(frames[0])}"
            raise CodecError("too_large", f"Request: expected {words}")
        return self._send(frames, now_s, answered=True)

    def ask(self, component: str, now_s: float) -> bool:
        """Ask for a permit without waiting; false when that cannot leave now."""
        return self._send(codec.encode(Ready(component)), now_s, answered=True)

    def cancel(self, request_id: int, now_s: float) -> bool:
        """Say that this request is not waited for any more; false when the gateway does not want to know, or cannot."""
        return self.ready and self.cancels and self._send(codec.encode(Cancel(request_id)), now_s)

    def task_ends(self, task: int, outcome: str, now_s: float) -> bool:
        """Say that a task is over; false when the gateway does not want to know, or cannot."""
        return self.ready and self.tasks and self._send(codec.encode(TaskEnds(task, outcome)), now_s)

    def report(self, report: Status, now_s: float) -> bool:
        """Say how the robot is; false when that cannot leave now. What it said is then lost: it is for people only."""
        return self.ready and self._send(codec.encode(report), now_s)

    def decided(self, answer: Decided, now_s: float) -> bool:
        """Say whether a person's decision was taken; false when that cannot leave now."""
        return self.ready and self._send(codec.encode(answer), now_s)

    def poll(self, timeout_s: float, now_s: float) -> list[Response]:
        """Wait up to `timeout_s` for answers; keeps the greeting alive. Bad messages are logged and dropped."""
        # Before the gateway counts as silent: this process may have been stopped for a while.
        was_ready, answers = self.ready, self._received(now_s)
        self._look_at_connection()
        if len(self._gateways) > 1:
            self._look_for_gateway(now_s)
        if not self.ready and (reason := self._handshakes.failure(now_s)):
            self.lost(self._handshakes.cause, reason)
        if self.hello_is_due(now_s):
            self._send(codec.encode(self.hello), now_s, answered=True)
        # Whoever has a request on a session that is over has to see that, before a welcome hides it.
        if answers or (was_ready and not self.ready):
            return answers
        if not self.socket.poll(max(0, round(timeout_s * 1000))):
            return answers
        return self._received(now_s)

    def next_due_s(self) -> float:
        if len(self._gateways) < 2:
            return super().next_due_s()
        # Whoever waits for the socket alone hears nothing of a connection that has ended.
        return min(super().next_due_s(), self._gateways.next_turn_s(), self._looked_s + LOOKS_EVERY_S)

    def _look_at_connection(self) -> None:
        """A session ends with its connection: what was asked on it is not answered any more, and the next connection
        has to be greeted. It may be there before anybody looks, where the gateway was started anew."""
        began, ended = self._handshakes.news()
        if self.ready and ended:
            self.lost("disconnected", f"the connection to the gateway at {self.endpoint} has ended")
        elif self.ready and began:
            self.lost(HELLO_REQUIRED, f"the connection to the gateway at {self.endpoint} was made anew")
        if began:
            self._last_hello_s = -1e9  # what was said before that has not left

    def _look_for_gateway(self, now_s: float) -> None:
        """Go to the next gateway where this one is lost."""
        self._looked_s = now_s
        if not self._gateways.turns(now_s, self.ready, self.cause):
            return
        before, self.endpoint = self.endpoint, self._gateways.current
        log.warning("from the gateway at %s to %s: %s", before, self.endpoint, self.reason)
        with contextlib.suppress(zmq.ZMQError):
            self.socket.disconnect(before)
        with contextlib.suppress(zmq.Again):  # what it said last is for nobody
            while True:
                self.socket.recv_multipart(zmq.NOBLOCK)
        self._handshakes.moved(self.endpoint)
        self._token = self._stored[self.endpoint]
        kept = self._token.load() if self._token is not None else ""
        self.begin_anew(self._gateways.token(before, self.hello.token, kept))
        with contextlib.suppress(zmq.ZMQError):  # a name that cannot be one: the next one's turn comes
            self.socket.connect(self.endpoint)

    def _learn_gateways(self) -> None:
        """The gateway has said which others serve its schedule. Only with keys it knows what answers there: without
        any it goes nowhere but on this machine, and where it was told to."""
        self._learned = self.gateways
        safe = [
            one
            for one in self.gateways
            if one in self._told
            or (not endpoint_problem(one, binds=False) and (self._encrypted or is_loopback(one)))
        ]
        if not safe or len(safe) != len(self.gateways):
            return
        if self._gateways.learn(safe):
            self._beat()
        for one in safe[1:]:
            stored = self._stored.setdefault(one, None if self._token is None else self._token.at(one))
            if stored is not None and self.ready:
                stored.keep(self.hello.token)

    def _beat(self) -> None:
        """There is another gateway to go to: from the next connection on, notice soon when one is lost."""
        self.socket.setsockopt(zmq.HEARTBEAT_IVL, HEARTBEAT_EVERY_MS)
        self.socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, HEARTBEAT_MISSING_MS)

    def _received(self, now_s: float) -> list[Response]:
        """The answers among what has come."""
        answers: list[Response] = []
        while True:
            try:
                frames = self.socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return answers
            self.heard(now_s)
            answer = self._read(frames)
            if answer is not None:
                answers.append(answer)

    def close(self) -> None:
        """Say goodbye and close the socket."""
        if self._send(codec.encode(Bye()), self._last_sent_s) and self._token is not None and self.ready:
            self._token.forget()
        self._handshakes.close()
        self.socket.close()
        self.ready = False

    def _send(self, frames: list[codec.Frame], now_s: float, answered: bool = False) -> bool:
        """False when it cannot leave now. `answered`: the gateway answers it, which a hello is for else."""
        try:
            self.socket.send_multipart(frames, zmq.NOBLOCK)  # pyzmq's copy=False was slower for these sizes
        except zmq.Again:
            return False
        if answered:
            self.sent(now_s)
        return True

    def _read(self, frames: list[bytes]) -> Response | None:
        was_ready = self.ready
        try:
            answer = self.take(codec.decode(frames))
            if self.ready and not was_ready:
                self._handshakes.news()  # the connection on which it is welcomed is none that comes later
            if self.gateways is not self._learned:
                self._learn_gateways()
            if self._token is not None:
                self._token.keep(self.hello.token)
            return answer
        except VersionError as error:
            self.lost(error.cause, str(error))
        except CodecError as error:
            log.warning("dropped a message from the gateway: %s", error)
        return None
