"""One hostile connection neither starves the others nor fills the memory; it is cut off and named in the log."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from rosa_contract.wire import codec
from rosa_contract.wire import messages as m
from rosa_contract.wire.images import EncodedImage
from rosa_sim.fuzz.run import MAX_GROWTH_MB
from rosa_sim.fuzz.wire import MORE, RawPeer, frame, message
from rosa_sim.hostile.floods import empty_frames, huge_header, nested_lists, noise
from tests.system.hostile.flood import STRANGER, flooding
from tests.system.server_harness import FRONT, JOINTS, Robot, Server, robot, serving

MB = 1 << 20
LARGE = """
server_cluster: {{num_servers: 4}}
robot_fleet: [{{task: pick, num_robots: 4}}]
pick:
  pipeline: {{action_period_ms: 400}}
  components:
    system1: {{model: policy, slo_ms: 300}}
models:
  policy: {{workers: {workers}, backend: "{backend}", options: {options}}}
gateway: {{bind: "tcp://127.0.0.1:{port}", metrics_port: {metrics_port}{gateway}}}
"""  # with the default max_message_mb


def resident_mb(server: Server) -> float:
    assert server.process is not None
    return psutil.Process(server.process.pid).memory_info().rss / MB


def answers_in_time(panda: Robot, count: int, budget_ms: float = 300.0) -> int:
    """How many of `count` requests, one every 100 ms, are answered `ok` within their budget."""
    good, due_s = 0, time.monotonic()
    for number in range(1000, 1000 + count):
        due_s += 0.1
        panda.request(number, budget_ms=budget_ms)
        end_s = time.monotonic() + budget_ms / 1000
        try:
            while (left_s := end_s - time.monotonic()) > 0:
                answer = panda.receive(left_s)
                if isinstance(answer, m.Response) and answer.request_id == number:
                    good += answer.status == m.OK
                    break
        except TimeoutError:
            pass
        time.sleep(max(0.0, due_s - time.monotonic()))
    return good


def everything(panda: Robot) -> Iterator[m.Message]:
    """What comes until nothing has come for two seconds."""
    with contextlib.suppress(TimeoutError):
        while True:
            yield panda.receive(2.0)


@pytest.mark.parametrize("data", [huge_header, empty_frames, noise, nested_lists])
def test_one_connection_does_not_starve_the_others(tmp_path: Path, data: Callable[[], bytes]) -> None:
    with serving(tmp_path, factory=LARGE) as server, robot(server) as panda:
        panda.join()
        before_mb = resident_mb(server)
        with flooding(server.endpoint, data()) as flood:
            time.sleep(0.5)
            assert answers_in_time(panda, 20) >= 18
        assert flood.connections > 0
        assert resident_mb(server) - before_mb < 100
        (first, *_) = server.events("connection_cut_off")
        assert first["address"] == STRANGER
        assert first["cause"] in ("bad_messages", "held_bytes", "handling_time")


def test_a_message_without_end_is_cut_off_before_it_fills_the_memory(tmp_path: Path) -> None:
    with serving(tmp_path, factory=LARGE) as server, robot(server) as panda:
        panda.join()
        before_mb = resident_mb(server)
        with flooding(server.endpoint, frame(bytes(MB), MORE), max_bytes=1 << 30):
            time.sleep(3.0)
            assert resident_mb(server) - before_mb < MAX_GROWTH_MB  # a busy machine looks late
            assert answers_in_time(panda, 10) >= 9
        assert {line["cause"] for line in server.events("connection_cut_off")} == {
            "held_bytes",
            "address_waits",
        }


def test_images_that_no_model_takes_are_refused_before_they_fill_the_memory(tmp_path: Path) -> None:
    extra = EncodedImage("rgb8", 3000, 3000, bytes(3000 * 3000 * 3))
    with serving(tmp_path, factory=LARGE) as server:
        with robot(server) as panda:
            panda.join()
            before_mb = resident_mb(server)
            panda.request(1, images={"front": FRONT, "back": FRONT})
            answer = panda.answer()
            assert (answer.request_id, answer.status) == (1, m.INVALID)
            assert "'back'" in answer.reason and "front" in answer.reason
            panda.request(2, images={"front": EncodedImage("jpeg", 8, 8, bytes(50_000))})
            assert panda.answer().status == m.INVALID, "50 KB for 8x8 pixels"
            for number in range(3, 43):
                panda.request(number, images={"front": FRONT, "back": extra})
            assert m.OK not in [
                answer.status for answer in everything(panda) if isinstance(answer, m.Response)
            ]
            assert resident_mb(server) - before_mb < 150
        assert server.events("connection_cut_off")[0]["robot"] == "r1"
        with robot(server, "r2", source="127.0.0.3") as other:  # the other address has to wait
            other.join()
            other.request(1)
            assert other.answer().status == m.OK


def test_who_does_not_read_the_answers_loses_them_and_nobody_else_does(tmp_path: Path) -> None:
    with serving(tmp_path) as server, robot(server) as panda:
        panda.join()
        before_mb = resident_mb(server)
        query = message(codec.encode(m.HealthQuery()))
        slow = RawPeer(server.endpoint, STRANGER, receive_bytes=4096)
        try:
            for _ in range(2000):
                slow.send(query)
        except OSError:
            pass  # it was cut off for the time that it took
        assert answers_in_time(panda, 10) >= 9
        assert resident_mb(server) - before_mb < 50
        slow.close()


def test_what_was_in_order_before_still_is(tmp_path: Path) -> None:
    """Requests with state only and the model's own camera pass every bound."""
    with serving(tmp_path) as server, robot(server) as panda:
        panda.join()
        panda.request(7, prompt="x" * 10_000, state=JOINTS)
        assert panda.answer().status == m.OK
