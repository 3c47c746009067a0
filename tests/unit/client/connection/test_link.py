"""The robot's line to the gateway, over real sockets; the test is the gateway."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import msgpack
import pytest
import zmq

from rosa_client.connection.link import GatewayLink
from rosa_contract.errors import CodecError
from rosa_contract.keyfile import RobotKeys
from rosa_contract.wire import codec
from rosa_contract.wire import messages as m
from rosa_contract.wire.progress import Progress

HELLO = m.Hello(
    "panda0", "pick", {"front": m.CameraInfo(height=96, width=96, encoding="jpeg")}, {"joint_position": 7}
)
PATIENCE_S = 10.0


class Gateway:
    """A ROUTER socket that a test speaks through."""

    def __init__(self, port: int = 0) -> None:
        """`port`: that of one that was closed; 0: any."""
        self.socket = zmq.Context.instance().socket(zmq.ROUTER)
        self.socket.setsockopt(zmq.LINGER, 0)
        end_s = time.monotonic() + PATIENCE_S
        while port:
            try:
                self.socket.bind(f"tcp://127.0.0.1:{port}")
                break
            except zmq.ZMQError:  # ZeroMQ lets go of the port a little after the other one was closed
                assert time.monotonic() < end_s, "the port is still taken"
                time.sleep(0.01)
        self.port = port or self.socket.bind_to_random_port("tcp://127.0.0.1")
        self.identity = b""

    @property
    def endpoint(self) -> str:
        return f"tcp://127.0.0.1:{self.port}"

    def heard(self, patience_s: float = 0.005) -> m.Message | None:
        if not self.socket.poll(round(patience_s * 1000)):
            return None
        self.identity, *frames = self.socket.recv_multipart()
        return codec.decode(frames)

    def say(self, message: m.Message) -> None:
        self.raw(*codec.encode(message))

    def raw(self, *frames: bytes) -> None:
        self.socket.send_multipart([self.identity, *frames])

    def close(self) -> None:
        self.socket.close()


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    it = Gateway()
    yield it
    it.close()


@pytest.fixture
def link(gateway: Gateway) -> Iterator[GatewayLink]:
    it = GatewayLink(gateway.endpoint, HELLO)
    yield it
    it.close()


def until(link: GatewayLink, gateway: Gateway, kind: type[m.Message]) -> m.Message:
    """Let both sides run until the gateway hears a `kind`."""
    end_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < end_s:
        link.poll(0.005, time.monotonic())
        message = gateway.heard()
        if isinstance(message, kind):
            return message
    raise AssertionError(f"the gateway heard no {kind.__name__}")


def settle(link: GatewayLink, ready: bool) -> list[m.Response]:
    """Let the link run until `ready` is as expected; returns the answers that came meanwhile."""
    answers = []
    end_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < end_s:
        answers += link.poll(0.005, time.monotonic())
        if link.ready is ready:
            return answers
    raise AssertionError(f"ready is still {link.ready}: {link.reason}")


def test_it_says_hello_and_is_ready_when_welcomed(link: GatewayLink, gateway: Gateway) -> None:
    assert not link.ready
    assert gateway.endpoint in link.reason
    assert until(link, gateway, m.Hello) == HELLO
    gateway.say(m.Welcome({"system1": "rosa/policy"}, {"system1": 1.5}))
    settle(link, True)
    assert link.rates_hz == {"system1": 1.5}


def test_a_request_and_its_answer_pass(link: GatewayLink, gateway: Gateway) -> None:
    until(link, gateway, m.Hello)
    gateway.say(m.Welcome({}))
    settle(link, True)
    assert link.send(m.Request(5, "system1", 100.0), time.monotonic())
    heard = until(link, gateway, m.Request)
    assert isinstance(heard, m.Request)
    gateway.say(m.Response(heard.request_id, m.EXPIRED, "budget_spent", "too late"))
    answers: list[m.Response] = []
    end_s = time.monotonic() + PATIENCE_S
    while not answers and time.monotonic() < end_s:
        answers = link.poll(0.01, time.monotonic())
    assert [(a.request_id, a.status) for a in answers] == [(5, m.EXPIRED)]


def test_a_request_that_no_gateway_would_read_is_refused_before_it_leaves(link: GatewayLink) -> None:
    with pytest.raises(CodecError, match="at most 65536 bytes") as error:
        link.send(m.Request(1, "system1", 100.0, "ä" * 40_000), time.monotonic())
    assert error.value.cause == "too_large"


def test_a_robot_that_was_stopped_for_a_while_reads_what_has_come_before_it_counts_the_server_as_lost(
    link: GatewayLink, gateway: Gateway
) -> None:
    until(link, gateway, m.Hello)
    gateway.say(m.Welcome({}))
    settle(link, True)
    gateway.say(m.Response(5, m.EXPIRED, "budget_spent", "too late"))
    assert link.socket.poll(PATIENCE_S * 1000), "it has come, and nobody has read it"
    [answer] = link.poll(0.0, time.monotonic() + 60.0)
    assert answer.request_id == 5
    assert link.ready, link.reason


def test_only_a_gateway_that_understands_it_is_told_of_a_cancelled_request(
    link: GatewayLink, gateway: Gateway
) -> None:
    until(link, gateway, m.Hello)
    assert not link.cancel(3, time.monotonic()), "not welcomed yet"
    gateway.say(m.Welcome({}))
    settle(link, True)
    assert not link.cancel(4, time.monotonic()), "a gateway of before"
    gateway.say(m.Welcome({}, cancels=True))
    end_s = time.monotonic() + PATIENCE_S
    while not link.cancels and time.monotonic() < end_s:
        link.poll(0.01, time.monotonic())
    assert link.cancel(5, time.monotonic())
    assert until(link, gateway, m.Cancel) == m.Cancel(5)


def test_only_a_gateway_that_understands_it_is_told_of_tasks(link: GatewayLink, gateway: Gateway) -> None:
    call = m.Request(5, "system1", 100.0, progress=Progress(2, 0, 0.0, "pick"))
    until(link, gateway, m.Hello)
    assert not link.task_ends(1, "done", time.monotonic()), "not welcomed yet"
    gateway.say(m.Welcome({}))
    settle(link, True)
    assert not link.task_ends(1, "done", time.monotonic()), "a gateway of before"
    assert link.send(call, time.monotonic())
    heard = until(link, gateway, m.Request)
    assert isinstance(heard, m.Request)
    assert heard.progress is None, "a gateway of before refuses what it does not know"
    gateway.say(m.Welcome({}, tasks=True))
    end_s = time.monotonic() + PATIENCE_S
    while not link.tasks and time.monotonic() < end_s:
        link.poll(0.01, time.monotonic())
    assert link.send(call, time.monotonic())
    heard = until(link, gateway, m.Request)
    assert isinstance(heard, m.Request)
    assert heard.progress == call.progress
    assert link.task_ends(2, "failed", time.monotonic())
    assert until(link, gateway, m.TaskEnds) == m.TaskEnds(2, "failed")


def test_after_the_gateway_forgot_it_the_robot_says_hello_again(link: GatewayLink, gateway: Gateway) -> None:
    until(link, gateway, m.Hello)
    gateway.say(m.Welcome({}))
    settle(link, True)
    gateway.say(m.Refused("hello_required", "this gateway has restarted"))
    settle(link, False)
    assert "hello_required" in link.reason
    assert until(link, gateway, m.Hello) == HELLO


def test_a_session_ends_with_its_connection(link: GatewayLink, gateway: Gateway) -> None:
    until(link, gateway, m.Hello)
    gateway.say(m.Welcome({}))
    settle(link, True)
    gateway.close()
    settle(link, False)
    assert link.cause == "disconnected" and gateway.endpoint in link.reason


def test_a_gateway_that_was_started_anew_before_anybody_looked_is_greeted_anew(
    link: GatewayLink, gateway: Gateway
) -> None:
    until(link, gateway, m.Hello)
    gateway.say(m.Welcome({}))
    settle(link, True)
    now_s, end_s = time.monotonic(), time.monotonic() + PATIENCE_S
    gateway.close()
    while link.socket.poll(0, zmq.POLLOUT):
        assert time.monotonic() < end_s, "the connection lasts"
    again = Gateway(gateway.port)
    try:
        assert link.socket.poll(PATIENCE_S * 1000, zmq.POLLOUT), (
            "it is connected again, and nobody has looked"
        )
        link.poll(0.0, now_s)  # no time has passed after which it would say hello
        assert not link.ready
        # libzmq tells of a new connection a little after it can be written to, so a busy machine sees the end only.
        assert link.cause in ("hello_required", "disconnected")
        assert until(link, again, m.Hello) == HELLO
        again.say(m.Welcome({}))
        settle(link, True)
        for _ in range(20):
            link.poll(0.005, time.monotonic())
            assert link.ready, link.reason
    finally:
        again.close()


def test_silence_makes_it_unready_and_says_for_how_long(link: GatewayLink, gateway: Gateway) -> None:
    until(link, gateway, m.Hello)
    gateway.say(m.Welcome({}))
    settle(link, True)
    link.poll(0.0, time.monotonic() + 3.5)
    assert not link.ready
    assert "nothing heard" in link.reason
    assert link.cause == "silent"


def test_a_request_that_arrived_damaged_does_not_cost_the_connection(
    link: GatewayLink, gateway: Gateway
) -> None:
    until(link, gateway, m.Hello)
    gateway.say(m.Welcome({}))
    settle(link, True)
    gateway.say(m.Refused("checksum_mismatch", "header: checksum mismatch"))
    gateway.say(m.Response(7, m.EXPIRED, "budget_spent", "too late"))
    answers: list[m.Response] = []
    end_s = time.monotonic() + PATIENCE_S
    while not answers and time.monotonic() < end_s:
        answers = link.poll(0.01, time.monotonic())
    assert [answer.request_id for answer in answers] == [7], "what came after the refusal"
    assert link.ready
    assert link.reason == ""


def test_a_robot_whose_hello_was_refused_says_why_it_is_not_connected(
    link: GatewayLink, gateway: Gateway
) -> None:
    until(link, gateway, m.Hello)
    gateway.say(m.Refused("wrong_key", "the key belongs to panda1"))
    end_s = time.monotonic() + PATIENCE_S
    while "panda1" not in link.reason and time.monotonic() < end_s:
        link.poll(0.01, time.monotonic())
    assert not link.ready
    assert link.reason == "wrong_key: the key belongs to panda1"
    assert link.cause == "wrong_key"


def hellos_while_it_works(link: GatewayLink, gateway: Gateway, from_s: float) -> int:
    """Two seconds by the link's clock, a request every 0.5 s; returns how many hellos were heard among them."""
    for step in range(8):
        now_s = from_s + 0.25 * step
        link.poll(0.0, now_s)
        if step % 2:
            assert link.send(m.Request(100 + step, "system1", 100.0), now_s)
    heard = []
    while sum(isinstance(message, m.Request) for message in heard) < 4:
        message = gateway.heard(PATIENCE_S)
        assert message is not None, f"of 4 requests and their hellos came {heard}"
        heard.append(message)
    return sum(message == HELLO for message in heard)


def test_after_a_silence_it_greets_once_a_second_although_requests_leave(
    link: GatewayLink, gateway: Gateway
) -> None:
    until(link, gateway, m.Hello)
    gateway.say(m.Welcome({}))
    settle(link, True)
    later_s = time.monotonic() + 10.0
    assert hellos_while_it_works(link, gateway, later_s) == 2, "the silence was noticed; then one a second"
    assert not link.ready
    gateway.say(m.Welcome({}))
    end_s = time.monotonic() + PATIENCE_S
    while not link.ready and time.monotonic() < end_s:
        link.poll(0.01, later_s + 1.9)
    assert link.ready
    assert hellos_while_it_works(link, gateway, later_s + 2.1) == 0, "requests are sign of life enough"


def test_another_schema_version_is_named_not_guessed(link: GatewayLink, gateway: Gateway) -> None:
    until(link, gateway, m.Hello)
    gateway.say(m.Welcome({}))
    settle(link, True)
    gateway.raw(msgpack.packb({"v": 99, "t": "welcome", "m": {}}))
    settle(link, False)
    assert f"the peer speaks 99, this side speaks {m.SCHEMA_VERSION}" in link.reason
    assert link.cause == "version_mismatch"


@pytest.mark.parametrize("frames", [(b"\xc1garbage",), (b"",), (b"\x81", b"x" * 1000)])
def test_garbage_from_the_network_is_dropped_and_the_link_lives(
    link: GatewayLink, gateway: Gateway, frames: tuple[bytes, ...]
) -> None:
    until(link, gateway, m.Hello)
    gateway.raw(*frames)
    gateway.say(m.Welcome({}))
    settle(link, True)


def test_without_a_server_a_request_is_dropped_not_queued() -> None:
    with socket.socket() as taken:  # nobody listens there, and no other test can
        taken.bind(("127.0.0.1", 0))
        link = GatewayLink(f"tcp://127.0.0.1:{taken.getsockname()[1]}", HELLO)
        try:
            assert not link.send(m.Request(1, "system1", 100.0), time.monotonic())
            assert link.poll(0.02, time.monotonic()) == []
        finally:
            link.close()


def test_why_the_hello_was_refused_stays_said_when_a_request_is_refused_too(
    link: GatewayLink, gateway: Gateway
) -> None:
    until(link, gateway, m.Hello)
    gateway.say(m.Refused("camera_missing", "needs camera 'front'; the robot has side"))
    end_s = time.monotonic() + PATIENCE_S
    while link.cause != "camera_missing" and time.monotonic() < end_s:
        link.poll(0.005, time.monotonic())
    gateway.say(m.Refused("hello_required", "say hello first"))
    for _ in range(20):
        link.poll(0.005, time.monotonic())
    assert (link.ready, link.cause) == (False, "camera_missing")
    assert "needs camera 'front'" in link.reason
    gateway.say(m.Welcome({"system1": "rosa/policy"}))
    settle(link, True)
    assert (link.cause, link.reason) == ("", "")


def test_only_a_server_with_keys_or_on_this_machine_is_proven(gateway: Gateway) -> None:
    for endpoint, proven in (
        (gateway.endpoint, True),
        ("tcp://192.0.2.1:5570", False),
        ("ipc:///tmp/x", True),
    ):
        link = GatewayLink(endpoint, HELLO)
        assert link.proves_server is proven
        link.close()
    keys = RobotKeys(*(zmq.curve_keypair()[0] for _ in range(3)))
    link = GatewayLink("tcp://192.0.2.1:5570", HELLO, keys)
    assert link.proves_server
    link.close()


def test_a_robot_that_only_reports_itself_keeps_its_server(link: GatewayLink, gateway: Gateway) -> None:
    """Nobody answers a report, so it must not stand for the hello that is answered."""
    until(link, gateway, m.Hello)
    gateway.say(m.Welcome({}))
    settle(link, True)
    now_s = time.monotonic()
    for _ in range(40):  # ten seconds of the robot's clock
        now_s += 0.25
        link.poll(0.0, now_s)
        assert link.ready, link.reason
        assert link.report(m.Status("idle"), now_s)
        message, end_s = None, time.monotonic() + PATIENCE_S
        while not isinstance(message, m.Status):  # what left before it arrives before it
            assert time.monotonic() < end_s
            message = gateway.heard()
            if isinstance(message, m.Hello):
                gateway.say(m.Welcome({}))
                assert link.socket.poll(int(PATIENCE_S * 1000)), "the answer arrives"
