"""Asks a gateway for its health again and again, and says a hello that takes nothing.

A health query needs no hello. The hello names a task that no server has: it is refused after the check of the key and
before a name or a place in the schedule is taken, so a robot that runs under this name is not disturbed.
"""

from __future__ import annotations

import time
from contextlib import suppress

import zmq

from rosa_client.connection.handshakes import Handshakes
from rosa_client.connection.link import MAX_MESSAGE_BYTES
from rosa_client.doctor.judges.gateway import GatewayFact, KeysFact
from rosa_contract.endpoint import endpoint_problem
from rosa_contract.errors import CodecError
from rosa_contract.keyfile import KeyFileError, RobotKeys, load_robot_keys
from rosa_contract.wire import codec
from rosa_contract.wire import messages as m

NO_TASK = "rosa doctor"
CONNECT_S = 4.0
ANSWER_S = 1.0
QUESTIONS = 50
MAX_LOST = 3  # questions in a row without an answer, then the server has stalled
PAUSE_S = 0.02


def keys_fact(folder: str, robot: str, endpoint: str) -> tuple[KeysFact, RobotKeys | None]:
    """What is in the key folder, and the keys where they can be used."""
    host = endpoint.removeprefix("tcp://").rpartition(":")[0]
    loopback = not endpoint.startswith("tcp://") or host in ("localhost", "[::1]") or host.startswith("127.")
    if not folder:
        return KeysFact(loopback=loopback), None
    try:
        return KeysFact(folder, "", loopback), load_robot_keys(folder, robot)
    except KeyFileError as error:
        return KeysFact(folder, str(error), loopback), None


def gateway_fact(
    endpoint: str, robot: str, keys: RobotKeys | None, questions: int = QUESTIONS
) -> GatewayFact:
    """Takes up to `CONNECT_S`, then `PAUSE_S` and a round trip per question, until `MAX_LOST` in a row are lost."""
    if problem := endpoint_problem(endpoint, binds=False):
        return GatewayFact(endpoint, "bad_endpoint", problem)
    asker = GatewayAsker(endpoint, keys)
    try:
        return asker.ask(robot, questions)
    finally:
        asker.close()


class GatewayAsker:
    """One connection to a gateway."""

    def __init__(self, endpoint: str, keys: RobotKeys | None) -> None:
        self._endpoint = endpoint
        self._socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.MAXMSGSIZE, MAX_MESSAGE_BYTES)
        if keys is not None:
            self._socket.setsockopt(zmq.CURVE_PUBLICKEY, keys.public)
            self._socket.setsockopt(zmq.CURVE_SECRETKEY, keys.secret)
            self._socket.setsockopt(zmq.CURVE_SERVERKEY, keys.server)
        self._handshakes = Handshakes(self._socket, endpoint, encrypted=keys is not None)
        self._socket.connect(endpoint)

    def close(self) -> None:
        self._handshakes.close()
        self._socket.close()

    def ask(self, robot: str, questions: int) -> GatewayFact:
        """The whole conversation."""
        report, cause, reason = self._first()
        if report is None:
            return GatewayFact(self._endpoint, cause, reason)
        times_ms: list[float] = []
        lost = silent = 0
        while len(times_ms) + lost < questions and silent < MAX_LOST:
            time.sleep(PAUSE_S)
            began_s = time.monotonic()
            answer = self._exchange(m.HealthQuery())
            if isinstance(answer, m.HealthReport):
                times_ms.append(1000 * (time.monotonic() - began_s))
                report, silent = answer, 0
            else:
                lost, silent = lost + 1, silent + 1
        hello = self._exchange(m.Hello(robot, NO_TASK, {}, {}))
        refused = hello if isinstance(hello, m.Refused) else None
        return GatewayFact(
            self._endpoint,
            round_trips_ms=times_ms,
            lost=lost,
            ready=report.ready,
            workers=dict(report.workers),
            connected=robot in report.robots,
            hello_cause=refused.cause if refused else "",
            hello_reason=refused.reason if refused else "",
        )

    def _first(self) -> tuple[m.HealthReport | None, str, str]:
        """The first answer, or why there is none."""
        with suppress(zmq.Again):  # the connection has failed already; the handshake says why
            self._send(m.HealthQuery())
        until_s = time.monotonic() + CONNECT_S
        reason = ""
        while time.monotonic() < until_s:
            try:
                answer = self._receive(0.1)
            except CodecError as error:
                return None, error.cause, f"{self._endpoint}: {error}"
            if isinstance(answer, m.HealthReport):
                return answer, "", ""
            if isinstance(answer, m.Refused):
                return None, answer.cause, f"{self._endpoint}: {answer.reason}"
            reason = self._handshakes.failure(time.monotonic()) or reason
            if self._handshakes.cause in ("refused", "mismatch"):
                break
        if reason:
            return None, self._handshakes.cause, reason
        return None, "no_answer", f"no answer from a gateway at {self._endpoint} within {CONNECT_S:g} s"

    def _exchange(self, message: m.HealthQuery | m.Hello) -> object:
        """The answer, or None. What an earlier question left behind is dropped first."""
        try:
            while self._socket.poll(0):
                self._socket.recv_multipart(zmq.NOBLOCK)
            self._send(message)
            return self._receive(ANSWER_S)
        except (CodecError, zmq.Again):
            return None

    def _send(self, message: m.HealthQuery | m.Hello) -> None:
        """Raises `zmq.Again` where libzmq has given the connection up: to wait for it would be to wait forever."""
        self._socket.send_multipart(codec.encode(message), zmq.NOBLOCK)

    def _receive(self, timeout_s: float) -> object:
        if not self._socket.poll(round(1000 * timeout_s)):
            return None
        return codec.decode(self._socket.recv_multipart())
