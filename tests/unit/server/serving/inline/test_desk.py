"""A model in the gateway's thread serves before any process does; one takes its place without losing a call."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import zmq

from rosa_contract.clock import MonotonicClock
from rosa_contract.config.factory import factory_from
from rosa_contract.wire import codec
from rosa_contract.wire import messages as m
from rosa_server.serving.core.dispatch.core import ServingCore
from rosa_server.serving.core.queueing.actions import Kill
from rosa_server.serving.edge.metrics import Metrics
from rosa_server.serving.gateway import Gateway
from rosa_server.serving.inline.desk import InlineDesk
from rosa_server.serving.inline.worker import InlineEnds

PATIENCE_S = 60.0
NEEDS = {"joint_position": 7}
FACTORY: dict[str, Any] = {
    "server_cluster": {"num_servers": 1},
    "robot_fleet": [{"task": "pick", "num_robots": 1}],
    "pick": {
        "pipeline": {"action_period_ms": 400},
        "components": {"system1": {"model": "policy", "slo_ms": 60000}},
    },
    "models": {"policy": {"backend": "null", "inline": True}},
}
HERE, FIRST, SECOND = "policy/0.0", "policy/0.1", "policy/0.2"


class Model:
    """Answers with whom it is, until a robot's prompt says that it ends."""

    def __init__(self) -> None:
        self.closed = False
        self.ends: InlineEnds | None = None

    def ready(self) -> m.WorkerReady:
        return m.WorkerReady(HERE, "policy", 4, {}, NEEDS)

    def answered(self, batch: m.Execute) -> m.Executed:
        prompts = [codec.decode(frames).prompt for frames in batch.frames]  # type: ignore[union-attr]
        if "hang" in prompts:
            raise InlineEnds("hangs", "it did")
        if "slow" in prompts:
            self.ends = InlineEnds("too_slow", "it was")
        return done(batch, HERE)

    def look_back(self) -> InlineEnds | None:
        return self.ends

    def close(self) -> None:
        self.closed = True


def done(batch: m.Execute, who: str) -> m.Executed:
    output = codec.encode_output(m.Output({"actions": np.zeros((4, 8), np.float32)}, text=who))
    nothing = [("", "")] * len(batch.tickets)
    return m.Executed(batch.batch_id, batch.tickets, 0.1, nothing, [output] * len(batch.tickets))


class NoProcesses:
    """A cluster whose workers are sockets of the test."""

    workers_bind = misconfigured = ""

    def __init__(self) -> None:
        self.ended: list[tuple[str, str]] = []

    def poll(self, now_s: float) -> list[tuple[str, str]]:
        ended, self.ended = self.ended, []
        return ended

    def ready(self, worker_id: str, now_s: float) -> None: ...

    def kill(self, worker_id: str, reason: str) -> None: ...

    def shm(self, worker_id: str) -> None:
        return None


class Bench:
    def __init__(self) -> None:
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.core, self.cluster, self.model = (
            ServingCore(factory_from(FACTORY, "test")),
            NoProcesses(),
            Model(),
        )
        cluster: Any = self.cluster
        self.gateway = Gateway(
            self.core,
            self.context,
            "tcp://127.0.0.1:*",
            "inproc://workers",
            MonotonicClock(),
            cluster,
            Metrics(),
            1.0,
            inline=InlineDesk([self.model]),
        )
        self._sockets: list[zmq.Socket[bytes]] = []
        self.robot = self._connected(self.gateway.robots_endpoint)
        self._request = 0

    def _connected(self, endpoint: str, name: str = "") -> zmq.Socket[bytes]:
        made = self.context.socket(zmq.DEALER)
        made.linger = 0
        if name:
            made.setsockopt(zmq.IDENTITY, name.encode())
        made.connect(endpoint)
        self._sockets.append(made)
        return made

    def until(self, condition: Callable[[], object]) -> None:
        end_s = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < end_s, "did not happen in time"
            self.gateway.step(0.01)

    def worker(self, worker_id: str) -> zmq.Socket[bytes]:
        """A process that announces itself."""
        made = self._connected("inproc://workers", worker_id)
        made.send_multipart(codec.encode(m.WorkerReady(worker_id, "policy", 4, {}, NEEDS)))
        self.until(lambda: worker_id in self.gateway.workers._ready)
        return made

    def hear(self, socket: zmq.Socket[bytes]) -> m.Message:
        self.until(lambda: socket.poll(0))
        return codec.decode(socket.recv_multipart())

    def welcome(self) -> None:
        self.robot.send_multipart(codec.encode(m.Hello("robot", "pick", {}, NEEDS)))
        assert isinstance(self.hear(self.robot), m.Welcome)

    def ask(self, prompt: str = "") -> None:
        self._request += 1
        state = {"joint_position": np.zeros(7, np.float32)}
        asked = m.Request(self._request, "system1", 60_000.0, prompt, state)
        self.robot.send_multipart(codec.encode(asked))

    def answer(self) -> str:
        """Who has answered."""
        answer = self.hear(self.robot)
        assert isinstance(answer, m.Response) and answer.output is not None, answer
        assert answer.request_id == self._request
        return answer.output.text

    def warm(self) -> set[str]:
        return {worker.worker_id for worker in self.core.pool}

    def close(self) -> None:
        self.gateway.close()
        for socket in self._sockets:
            socket.close()
        self.context.term()


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    try:
        yield made
    finally:
        made.close()


def serve(worker: zmq.Socket[bytes], bench: Bench, name: str) -> None:
    """The process answers the batch that it is given."""
    given = bench.hear(worker)
    assert isinstance(given, m.Execute)
    worker.send_multipart(codec.encode(done(given, name)))


def test_it_answers_before_any_process_is_there_and_beside_one(bench: Bench) -> None:
    bench.welcome()
    for _ in range(3):
        bench.ask()
        assert bench.answer() == HERE
    worker = bench.worker(FIRST)
    bench.ask()
    assert bench.answer() == HERE
    assert bench.warm() == {HERE}, "the process stands ready, and the core does not know of it"
    assert not worker.poll(0)


def test_the_call_that_it_does_not_answer_is_run_by_the_worker_beside_it(bench: Bench) -> None:
    bench.welcome()
    worker = bench.worker(FIRST)
    bench.ask("hang")
    serve(worker, bench, FIRST)
    assert bench.answer() == FIRST
    assert bench.warm() == {FIRST} and bench.model.closed
    bench.ask()
    serve(worker, bench, FIRST)
    assert bench.answer() == FIRST


def test_one_that_is_too_slow_answers_and_goes(bench: Bench) -> None:
    bench.welcome()
    worker = bench.worker(FIRST)
    bench.ask("slow")
    assert bench.answer() == HERE
    bench.until(lambda: bench.warm() == {FIRST})
    bench.ask()
    serve(worker, bench, FIRST)
    assert bench.answer() == FIRST


def test_without_a_worker_beside_it_its_call_waits_for_one(bench: Bench) -> None:
    bench.welcome()
    bench.ask("hang")
    bench.until(lambda: not bench.warm())
    worker = bench.worker(FIRST)
    serve(worker, bench, FIRST)
    assert bench.answer() == FIRST


def test_another_life_of_its_worker_may_have_another_model_so_it_goes(bench: Bench) -> None:
    bench.welcome()
    bench.worker(FIRST)
    bench.worker(SECOND)
    bench.until(lambda: bench.warm() == {FIRST, SECOND})
    assert bench.model.closed


def test_a_worker_that_has_ended_does_not_take_its_place(bench: Bench) -> None:
    bench.welcome()
    bench.worker(FIRST)
    bench.cluster.ended.append((FIRST, "was killed"))
    bench.until(lambda: FIRST not in bench.gateway.workers._ready)
    bench.ask("slow")
    assert bench.answer() == HERE
    bench.until(lambda: not bench.warm())


def test_a_drain_ends_both(bench: Bench) -> None:
    worker = bench.worker(FIRST)
    bench.gateway.workers.drain(HERE)
    assert isinstance(bench.hear(worker), m.Drain)
    assert not bench.warm() and bench.model.closed


def test_what_the_core_kills_goes(bench: Bench) -> None:
    bench.core._do(Kill(HERE, "a test says so"))
    bench.until(lambda: bench.model.closed)
    assert not bench.warm()
