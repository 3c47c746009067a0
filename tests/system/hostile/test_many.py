"""Many connections: idle ones leave the robots alone, and a thousand robots are served by one gateway.

Those that stay half open are an attempt of `test_attempts.py`.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import zmq

from rosa_contract.wire import codec
from rosa_contract.wire import messages as m
from rosa_server.serving.base.descriptors import more_descriptors
from rosa_sim.fuzz.wire import idle_connections
from tests.system.server_harness import FRONT, JOINTS, PATIENCE_S, Server, robot, serving

IDLE, ROBOTS, REQUESTS = 1500, 1000, 3


def wait_for(server: Server, event: str, count: int) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while len(server.events(event)) < count:
        assert server.process is not None and server.process.poll() is None, server.log()
        assert time.monotonic() < end_s, f"{event} did not happen {count} times:\n{server.log()[-5000:]}"
        time.sleep(0.05)


def test_idle_connections_and_a_killed_worker_do_not_end_the_server(tmp_path: Path) -> None:
    more_descriptors()
    with serving(tmp_path, descriptors=1024) as server, robot(server) as panda:
        panda.join()
        idle = idle_connections("127.0.0.1", server.port, IDLE)
        time.sleep(1.0)
        (worker,) = server.workers()
        worker.kill()
        wait_for(server, "worker_ready", 2)
        panda.join()
        panda.request(1)
        assert panda.answer().status == m.OK
        with robot(server, "r2") as newcomer:
            newcomer.join()
            newcomer.request(1)
            assert newcomer.answer().status == m.OK
        for one in idle:
            one.close()
    cut = server.events("connection_cut_off")
    assert cut[0]["address"] == "127.0.0.1"
    assert {line["cause"] for line in cut} <= {"too_many_connections", "no_hello"}


@pytest.mark.slow
def test_a_thousand_robots_are_served_by_one_gateway(tmp_path: Path) -> None:
    if more_descriptors() < 3 * ROBOTS:
        pytest.skip(f"needs {3 * ROBOTS} descriptors")
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    context.set(zmq.MAX_SOCKETS, ROBOTS + 10)
    with serving(tmp_path) as server, robot(server, "first") as first:
        first.join()
        sockets = [context.socket(zmq.DEALER) for _ in range(ROBOTS)]
        try:
            poller = zmq.Poller()
            for index, one in enumerate(sockets):
                one.linger = 0
                one.connect(server.endpoint)
                cameras = {"front": m.CameraInfo(height=8, width=8, encoding="rgb8")}
                hello = m.Hello(f"robot{index}", "pick", cameras, {"joint_position": 7})
                one.send_multipart(codec.encode(hello))
                poller.register(one, zmq.POLLIN)
            asked, good = dict.fromkeys(sockets, 0), dict.fromkeys(sockets, 0)
            end_s = time.monotonic() + PATIENCE_S
            while sum(good.values()) < ROBOTS * REQUESTS:
                assert time.monotonic() < end_s, f"{sum(good.values())} of {ROBOTS * REQUESTS} answers"
                for one, _ in poller.poll(1000):
                    answer = codec.decode(one.recv_multipart())
                    if isinstance(answer, m.Response):
                        assert answer.status == m.OK, answer
                        good[one] += 1
                    else:
                        assert isinstance(answer, m.Welcome), answer
                    if asked[one] < REQUESTS:
                        asked[one] += 1
                        call = m.Request(asked[one], "system1", 30_000, "", JOINTS, {"front": FRONT})
                        one.send_multipart(codec.encode(call))
            first.send(m.HealthQuery())
            report = first.receive()
            assert isinstance(report, m.HealthReport)
            assert report.connected == ROBOTS + 1
            assert server.events("connection_cut_off") == []
        finally:
            for one in sockets:
                one.close()
            context.term()
