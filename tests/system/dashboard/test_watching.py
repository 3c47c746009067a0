"""A real gateway that is watched: an alert comes out, and a decision goes in and comes back answered."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import zmq

from rosa_contract.wire import codec
from rosa_contract.wire import messages as m
from rosa_contract.wire.packing import unpack
from rosa_contract.wire.status import HAS_ALERT, ComponentStatus, OpenAlert
from rosa_contract.wire.watching import Asked, Watch, decode_answer, encode_ask
from rosa_server.serving.watching.hub import DECIDED, EVENTS, STATUS
from tests.system.server_harness import PATIENCE_S, Robot, Server, robot, serving

ALERT = OpenAlert(17, "arm_fault", "the arm reports a fault", ("resume", "abort"))
WAITS = m.Status(
    "waiting_for_human",
    ALERT.reason,
    True,
    components=(ComponentStatus("system1", 300.0, 80.0, 120.0, 9, 8, 1, 0, 0),),
    alert=ALERT,
)


@contextmanager
def watching(endpoint: str) -> Iterator[Callable[..., list[list[bytes]]]]:
    """Someone who watches. Called with a condition, it returns all messages so far once one fulfils it."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    socket = context.socket(zmq.DEALER)
    socket.linger = 0
    socket.connect(endpoint)
    heard: list[list[bytes]] = []

    def until(condition: Callable[[list[bytes]], Any], *say: bytes) -> list[bytes]:
        for message in say:
            socket.send(message)
        end_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < end_s:
            socket.send(encode_ask(Watch(b"")))
            while socket.poll(200):
                message = socket.recv_multipart()
                heard.append(message)
                if condition(message):
                    return message
        raise AssertionError(f"waited in vain; heard {[one[0] for one in heard]}")

    try:
        yield until
    finally:
        socket.close()
        context.term()


def metrics(server: Server) -> str:
    url = f"http://127.0.0.1:{server.metrics_port}/metrics"
    return str(urllib.request.urlopen(url, timeout=10).read().decode())


def until(condition: Callable[[], Any], what: str) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end_s, f"waited in vain for {what}"
        time.sleep(0.05)


def decision_of(one: Robot) -> m.Decide:
    while not isinstance(message := one.receive(), m.Decide):
        pass
    return message


def test_an_alert_comes_out_of_the_gateway_and_a_decision_goes_in(tmp_path: Path) -> None:
    socket = tmp_path / "private" / "watch"
    with serving(tmp_path, gateway=f', watch: "ipc://{socket}"') as server, robot(server, "panda0") as panda:
        welcome = panda.join().hello()
        assert isinstance(welcome, m.Welcome) and welcome.status_hz > 0
        with watching(f"ipc://{socket}") as heard:
            heard(lambda message: message[0] == b"robots" and b"panda0" in message[1])
            panda.send(WAITS)
            news = heard(lambda message: message[0] == STATUS)
            [[name, held, frame]] = unpack(news[1], "reports", 1 << 20, 999)["reports"]
            assert (name, held) == ("panda0", HAS_ALERT)
            assert codec.decode([frame]) == WAITS, "as the robot has said it"
            until(lambda: 'rosa_robot_waits_for_person{robot="panda0"} 1.0' in metrics(server), "the metric")
            heard(
                lambda m: m[0] == b"state",
                encode_ask(Asked(b"", 5, "panda0", 17, "resume", "anna", "it is clear")),
            )
            asked = decision_of(panda)
            assert (asked.alert_id, asked.choice, asked.decided_by, asked.why) == (
                17,
                "resume",
                "anna",
                "it is clear",
            )
            panda.send(m.Decided(asked.number, True))
            answer = decode_answer(heard(lambda message: message[0] == DECIDED)[1])
            assert (answer.number, answer.accepted) == (5, True)
            panda.send(m.Bye())
            gone = unpack(
                heard(lambda m: m[0] == EVENTS and b"robot_left" in m[1])[1], "events", 1 << 20, 999
            )
            assert gone["events"][-1]["robot"] == "panda0"
        until(lambda: "rosa_robot_waits_for_person{" not in metrics(server), "the metric to go")
        [joined] = [line for line in server.events("robot_joined") if line["robot"] == "panda0"]
        assert joined["task"] == "pick"
        [left] = server.events("robot_left")
        assert (left["robot"], left["reason"]) == ("panda0", "the robot said bye")
        [decided] = server.events("operator_decided")
        assert (decided["by"], decided["choice"], decided["why"], decided["accepted"]) == (
            "anna",
            "resume",
            "it is clear",
            True,
        )


def test_how_near_its_deadlines_a_robot_is_can_be_scraped(tmp_path: Path) -> None:
    with serving(tmp_path) as server, robot(server, "panda0") as panda:
        panda.join()
        panda.request(1, budget_ms=20_000)
        assert panda.answer().status == m.OK
        name = 'rosa_deadline_margin_ratio{component="system1",robot="panda0"}'
        until(lambda: name in metrics(server), "the metric")


def test_a_place_that_others_can_enter_is_refused_and_the_words_say_why(tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir(mode=0o755)
    with serving(tmp_path, gateway=f', watch: "ipc://{folder}/watch"') as server:
        assert server.process is not None
        assert server.process.wait(PATIENCE_S) == 2
        assert "nobody else can enter" in server.log()
