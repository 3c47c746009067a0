"""The dashboard's line to a gateway: it says every second that somebody watches, reads, and hands decisions in."""

from __future__ import annotations

import asyncio
import itertools
import time
from dataclasses import dataclass

import zmq

from rosa_contract.errors import CodecError
from rosa_contract.wire.watching import Asked, Look, Watch, decode_answer, encode_ask
from rosa_server.dashboard.model import FleetModel
from rosa_server.serving.watching.hub import DECIDED
from rosa_server.serving.watching.pictures import PICTURES
from rosa_server.serving.watching.watchers import SAYS_EVERY_S

LOOK_EVERY_S = 0.05
ANSWER_WITHIN_S = 7.0  # longer than the gateway waits for a robot
MAX_OPEN = 64
MAX_UNREAD = 4096
MAX_IN_ONE_LOOK = 2000
NOBLOCK = int(zmq.NOBLOCK)


@dataclass(frozen=True)
class DecisionOutcome:
    """What came of a decision. `cause` and `reason`: why it was not taken."""

    accepted: bool
    cause: str = ""
    reason: str = ""


class Feed:
    """Runs in the event loop of the server that it feeds; nothing in it waits."""

    def __init__(self, endpoint: str, model: FleetModel) -> None:
        self.endpoint, self.model = endpoint, model
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket: zmq.Socket[bytes] = self._context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.RCVHWM, MAX_UNREAD)
        self._socket.setsockopt(zmq.SNDHWM, MAX_OPEN)
        self._socket.setsockopt(zmq.IMMEDIATE, 1)  # a decision never waits for a gateway that is not there
        self._socket.setsockopt(zmq.RECONNECT_IVL, 100)
        self._socket.setsockopt(zmq.RECONNECT_IVL_MAX, 500)
        self._socket.connect(endpoint)
        self._open: dict[int, asyncio.Future[DecisionOutcome]] = {}
        self._numbers = itertools.count(1)
        self._say_s = 0.0

    async def run(self) -> None:
        """Until cancelled."""
        loop = asyncio.get_running_loop()
        descriptor = int(self._socket.getsockopt(zmq.FD))
        loop.add_reader(descriptor, self._read)
        try:
            while True:
                now_s = time.monotonic()
                if now_s >= self._say_s:
                    self._say_s = now_s + SAYS_EVERY_S
                    self._send(encode_ask(Watch(b"")))
                self._read()
                self.model.refresh(now_s)
                await asyncio.sleep(LOOK_EVERY_S)
        finally:
            loop.remove_reader(descriptor)
            self._socket.close()
            self._context.term()

    async def decide(self, person: str, robot: str, alert_id: int, choice: str, why: str) -> DecisionOutcome:
        """Hand a decision in and wait for what the robot says."""
        if len(self._open) >= MAX_OPEN:
            return DecisionOutcome(False, "overloaded", f"{MAX_OPEN} decisions wait for an answer")
        number = next(self._numbers)
        answer = self._open[number] = asyncio.get_running_loop().create_future()
        try:
            if not self._send(encode_ask(Asked(b"", number, robot, alert_id, choice, person, why))):
                return DecisionOutcome(False, "no_gateway", "the gateway is not there: nothing was decided")
            return await asyncio.wait_for(answer, ANSWER_WITHIN_S)
        except TimeoutError:
            words = "the gateway did not answer; look at the robot before you decide again"
            return DecisionOutcome(False, "no_answer", words)
        finally:
            del self._open[number]

    def look(self, robot: str) -> None:
        """Ask for what the robot's cameras show; it comes with the robot's next request."""
        self._send(encode_ask(Look(b"", robot)))

    def _send(self, message: bytes) -> bool:
        try:
            self._socket.send(message, NOBLOCK)
        except zmq.Again:
            return False
        return True

    def _read(self) -> None:
        """ZeroMQ's descriptor tells of a change once, so everything is read that there is."""
        now_s = time.monotonic()
        for _ in range(MAX_IN_ONE_LOOK):
            try:
                message = self._socket.recv_multipart(NOBLOCK)
            except zmq.Again:
                return
            if message[0] == DECIDED:
                self._decided(message)
            elif message[0] == PICTURES:
                self.model.pictures.hear(message, now_s)
            else:
                self.model.hear(message, now_s)

    def _decided(self, message: list[bytes]) -> None:
        try:
            told = decode_answer(message[1])
        except (CodecError, IndexError):
            return
        outcome, answer = DecisionOutcome(told.accepted, told.cause, told.reason), self._open.get(told.number)
        if answer is not None and not answer.done():
            answer.set_result(outcome)
