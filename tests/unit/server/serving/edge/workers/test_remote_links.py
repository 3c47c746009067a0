"""Workers over TCP, as those of other machines are: who may connect, what a cut link does, what counts afterwards."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import psutil
import pytest
import zmq

from rosa_contract.clock import MonotonicClock
from rosa_contract.config.factory import factory_from
from rosa_contract.wire import codec
from rosa_contract.wire import messages as m
from rosa_server.cluster.local import LocalCluster, worker_specs
from rosa_server.serving.base.watched_link import ENDS_MS, SILENT_MS, WatchedLink
from rosa_server.serving.base.worker_keys import WorkerKeyPair, WorkerKeys
from rosa_server.serving.core.dispatch.core import ServingCore
from rosa_server.serving.core.queueing.actions import Action, Dispatch, Reply
from rosa_server.serving.edge.keyed_port import MAX_STRANGERS
from rosa_server.serving.edge.metrics import Metrics
from rosa_server.serving.gateway import Gateway

PATIENCE_S = 60.0
MAX_PAUSES = 20  # until one is short enough
TCP = "tcp://127.0.0.1:*"
NEEDS: dict[str, int] = {"joint_position": 7}
OUTPUT = codec.encode_output(m.Output({"actions": np.zeros((4, 8), np.float32)}))
FACTORY: dict[str, Any] = {
    "server_cluster": {"num_servers": 2},
    "robot_fleet": [{"task": "pick", "num_robots": 1}],
    "pick": {
        "pipeline": {"action_period_ms": 400},
        "components": {"system1": {"model": "policy", "slo_ms": 60000}},
    },
    "models": {"policy": {"backend": "emulated", "workers": 2, "options": {"latency_ms": 1}}},
}


class Recorded(ServingCore):
    """Remembers what it has decided."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.done: list[Action] = []

    def actions(self) -> list[Action]:
        out = super().actions()
        self.done += out
        return out


class Bench:
    """A gateway whose workers reach it over TCP: real processes, or sockets of the test."""

    def __init__(self, workers: int) -> None:
        """`workers`: processes; none: `issue` keys and `connect` instead."""
        self.clock, self.keys = MonotonicClock(), WorkerKeys()
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        factory = factory_from(FACTORY, "test")
        self.core = Recorded(factory)
        specs = worker_specs(factory, self.core.router.placement)[:workers]
        self.cluster = LocalCluster(specs, TCP)
        self.gateway = Gateway(
            self.core,
            self.context,
            TCP,
            TCP,
            self.clock,
            self.cluster,
            Metrics(),
            1.0,
            worker_keys=self.keys,
        )
        self.cluster.start(self.gateway.workers.endpoint, self.keys)
        self.robot = self.context.socket(zmq.DEALER)
        self.robot.linger = 0
        self.robot.connect(self.gateway.robots_endpoint)
        self._request = 0
        self._sockets: list[tuple[zmq.Socket[bytes], WatchedLink]] = []

    def until(self, condition: Callable[[], object]) -> None:
        end_s = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < end_s, "did not happen in time"
            self.gateway.step(0.01)

    def say(self, message: m.FromRobot) -> None:
        self.robot.send_multipart(codec.encode(message))

    def hear(self) -> m.Message:
        self.until(lambda: self.robot.poll(0))
        return codec.decode(self.robot.recv_multipart())

    def ask(self) -> int:
        """A call of the robot."""
        self._request += 1
        self.say(
            m.Request(self._request, "system1", 60_000.0, state={"joint_position": np.zeros(7, np.float32)})
        )
        return self._request

    def connect(self, pair: WorkerKeyPair, endpoint: str = "") -> tuple[zmq.Socket[bytes], WatchedLink]:
        """A worker's socket, in the hand of the test. `endpoint`: of something between."""
        made = self.context.socket(zmq.DEALER)
        made.linger = 0
        link = WatchedLink(made, pair, ENDS_MS)
        self._sockets += [(made, link)]
        made.connect(endpoint or self.gateway.workers.endpoint)
        return made, link

    def warm(self) -> set[str]:
        return {worker.worker_id for worker in self.core.pool}

    def given(self) -> list[Dispatch]:
        return [one for one in self.core.done if isinstance(one, Dispatch)]

    def answered(self) -> list[Reply]:
        return [one for one in self.core.done if isinstance(one, Reply)]

    def close(self) -> None:
        self.gateway.workers.drain_all()
        self.cluster.stop(10.0)
        self.gateway.close()
        for one, link in self._sockets:
            link.close()
            one.close()
        self.robot.close()
        self.context.term()


class Cable:
    """A TCP connection that passes everything on until it is cut: then nothing, in neither direction, and no end."""

    def __init__(self, endpoint: str) -> None:
        self._to = ("127.0.0.1", int(endpoint.rpartition(":")[2]))
        self._listens = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"tcp://127.0.0.1:{self._listens.getsockname()[1]}"
        self._whole = threading.Event()
        self._whole.set()
        self._closed = False
        self._ends: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def cut(self) -> None:
        self._whole.clear()

    def mend(self) -> None:
        self._whole.set()

    def _accept(self) -> None:
        while True:
            with contextlib.suppress(OSError):
                near, _ = self._listens.accept()
                if self._closed:
                    near.close()
                    return
                far = socket.create_connection(self._to)
                self._ends += [near, far]
                for one, other in ((near, far), (far, near)):
                    self._threads.append(threading.Thread(target=self._pass_on, args=(one, other)))
                    self._threads[-1].start()

    def _pass_on(self, one: socket.socket, other: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := one.recv(1 << 16):
                self._whole.wait()
                other.sendall(data)
        for end in (one, other):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._closed = True
        self.mend()
        socket.create_connection(self._listens.getsockname()).close()
        for end in self._ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(PATIENCE_S)
        for end in (*self._ends, self._listens):
            end.close()


@pytest.fixture
def bench() -> Iterator[Callable[[int], Bench]]:
    with contextlib.ExitStack() as stack:
        yield lambda workers: stack.enter_context(contextlib.closing(Bench(workers)))


def test_only_workers_that_end_unasked_are_counted_as_lost(bench: Callable[[int], Bench]) -> None:
    """An alert goes by this number: a rollout must not look like workers that end again and again."""
    it = bench(2)
    it.until(lambda: it.warm() == {"policy/0.1", "policy/1.1"})
    it.cluster.hold("policy/0", True)
    it.core.retire(it.clock.now_s(), "policy/0.1", "drain")
    it.gateway.workers.drain("policy/0.1")
    it.until(lambda: "policy/0.1" in it.gateway.workers.ended())
    assert it.gateway._metrics.registry.get_sample_value("rosa_worker_losses_total") == 0
    it.cluster.kill("policy/1.1", "a test says so")
    it.until(lambda: "policy/1.1" in it.gateway.workers.ended())
    assert it.gateway._metrics.registry.get_sample_value("rosa_worker_losses_total") == 1


def announce(socket_: zmq.Socket[bytes], worker_id: str) -> None:
    socket_.send_multipart(codec.encode(m.WorkerReady(worker_id, "policy", 8, {}, NEEDS)))


@pytest.mark.slow
def test_a_frozen_worker_loses_its_calls_to_another_and_may_come_back_with_the_same_life(
    bench: Callable[[int], Bench],
) -> None:
    it = bench(2)
    it.until(lambda: len(it.warm()) == 2)
    names = it.warm()
    children = {
        int(p.pid): p
        for p in psutil.Process().children()
        if "rosa_server.serving.worker.worker" in p.cmdline()
    }
    frozen = next(iter(children))
    line = " ".join(children[frozen].cmdline())
    name = next(one for one in names if f'"{one}"' in line)
    os.kill(frozen, signal.SIGSTOP)
    try:
        it.until(lambda: name not in it.warm())
        assert children[frozen].is_running(), "its link was cut, it was not ended"
    finally:
        os.kill(frozen, signal.SIGCONT)
    it.until(lambda: it.warm() == names)


def test_what_a_worker_was_given_before_its_link_ended_is_answered_by_another_one_and_by_it_no_more(
    bench: Callable[[int], Bench],
) -> None:
    it = bench(0)
    with contextlib.closing(Cable(it.gateway.workers.endpoint)) as cable:
        first, link = it.connect(it.keys.issue("policy/0.1"), cable.endpoint)
        announce(first, "policy/0.1")
        it.until(lambda: it.warm() == {"policy/0.1"})
        it.say(m.Hello("arm1", "pick", {}, NEEDS))
        assert isinstance(it.hear(), m.Welcome)
        it.ask()
        it.until(it.given)
        (batch,) = it.given()
        second, _ = it.connect(it.keys.issue("policy/1.1"))
        announce(second, "policy/1.1")
        it.until(lambda: "policy/1.1" in it.warm())
        cable.cut()
        it.until(lambda: len(it.given()) == 2)
        again = it.given()[1]
        assert again.worker_id == "policy/1.1" and again.batch_id != batch.batch_id
        assert it.warm() == {"policy/1.1"}
        it.until(lambda: not link.came_up() and link.down_s() > 0.0)  # the worker has noticed it too
        cable.mend()
        it.until(link.came_up)
        first.send_multipart(executed(batch))  # before it has announced itself: not read
        announce(first, "policy/0.1")
        first.send_multipart(executed(batch))  # and after: stale
        it.until(lambda: "policy/0.1" in it.warm())
        for _ in range(20):
            it.gateway.step(0.01)
        assert not it.answered() and "policy/0.1" in it.warm(), "neither an answer nor a mistake"
        second.send_multipart(executed(again))
        it.until(it.answered)
        assert [one.status for one in it.answered()] == ["ok"]


def paused(it: Bench, cable: Cable, condition: Callable[[], bool]) -> bool:
    """Nothing gets through the cable for a while, and until a condition holds. Whether that was shorter than what ends
    a connection: on a machine that is too slow for that nothing is shown."""
    began_s = time.monotonic()
    cable.cut()
    it.until(lambda: time.monotonic() - began_s > 3 * SILENT_MS / 1000 and condition())
    cable.mend()
    return time.monotonic() - began_s < 0.8 * ENDS_MS / 1000


def test_the_only_worker_keeps_its_calls_through_a_pause_in_which_nothing_is_heard_of_it(
    bench: Callable[[int], Bench],
) -> None:
    it = bench(0)
    with contextlib.closing(Cable(it.gateway.workers.endpoint)) as cable:
        only, link = it.connect(it.keys.issue("policy/0.1"), cable.endpoint)
        announce(only, "policy/0.1")
        it.until(it.warm)
        it.say(m.Hello("arm1", "pick", {}, NEEDS))
        assert isinstance(it.hear(), m.Welcome)
        for number in range(MAX_PAUSES):
            it.until(lambda: link.came_up() or not link.down_s())
            if number:  # its connection has ended, and it is another one
                announce(only, "policy/0.1")
            it.until(it.warm)
            before = len(it.given())
            it.ask()
            it.until(lambda wanted=before + 1: len(it.given()) == wanted)
            if paused(it, cable, lambda: True):
                break
        given = it.given()
        assert it.warm() == {"policy/0.1"} and len(given) == before + 1, "nobody else could run it"
        only.send_multipart(executed(given[-1]))
        it.until(it.answered)
        assert it.answered()[-1].status == "ok" and len(it.given()) == before + 1
        assert not link.came_up() and not link.down_s(), "it is the same connection"


def test_a_worker_that_is_heard_again_goes_on_over_its_connection(bench: Callable[[int], Bench]) -> None:
    it = bench(0)
    other, _ = it.connect(it.keys.issue("policy/1.1"))
    announce(other, "policy/1.1")
    with contextlib.closing(Cable(it.gateway.workers.endpoint)) as cable:
        silent, link = it.connect(it.keys.issue("policy/0.1"), cable.endpoint)
        for _ in range(MAX_PAUSES):
            it.until(lambda: link.came_up() or not link.down_s())
            announce(silent, "policy/0.1")
            it.until(lambda: it.warm() == {"policy/0.1", "policy/1.1"})
            if paused(it, cable, lambda: it.warm() == {"policy/1.1"}):
                break
        it.until(lambda: it.warm() == {"policy/0.1", "policy/1.1"})
        assert not link.came_up() and not link.down_s(), "nobody has announced itself anew"


def test_a_slow_worker_is_passed_over_and_comes_back_when_it_has_answered_what_it_held(
    bench: Callable[[int], Bench],
) -> None:
    it = bench(0)
    slow, _ = it.connect(it.keys.issue("policy/0.1"))
    announce(slow, "policy/0.1")
    it.until(lambda: it.warm() == {"policy/0.1"})
    it.say(m.Hello("arm1", "pick", {}, NEEDS))
    assert isinstance(it.hear(), m.Welcome)
    for count in (1, 2, 3):  # it is known how long a batch takes
        it.ask()
        it.until(lambda wanted=count: len(it.given()) == wanted)
        slow.send_multipart(executed(it.given()[-1]))
        it.until(lambda wanted=count: len(it.answered()) == wanted)
    it.ask()
    it.until(lambda: len(it.given()) == 4)
    late = it.given()[-1]
    for _ in range(100):
        it.gateway.step(0.01)
    assert it.warm() == {"policy/0.1"} and len(it.given()) == 4, "there is nobody else"
    other, _ = it.connect(it.keys.issue("policy/1.1"))
    announce(other, "policy/1.1")
    it.until(lambda: it.warm() == {"policy/1.1"})
    it.until(lambda: len(it.given()) == 5)
    again = it.given()[-1]
    assert again.worker_id == "policy/1.1" and again.calls == late.calls
    slow.send_multipart(executed(late))
    it.until(lambda: it.warm() == {"policy/0.1", "policy/1.1"})
    assert len(it.answered()) == 3, "its answer counts no more"
    other.send_multipart(executed(again))
    it.until(lambda: len(it.answered()) == 4)
    assert {one.status for one in it.answered()} == {"ok"}


def test_a_worker_of_an_earlier_life_is_cut_off_whatever_it_says(bench: Callable[[int], Bench]) -> None:
    it = bench(0)
    old, link = it.connect(it.keys.issue("policy/0.1"))
    announce(old, "policy/0.1")
    it.until(lambda: it.warm() == {"policy/0.1"})
    it.keys.withdraw("policy/0.1")
    announce(old, "policy/0.1")
    it.until(lambda: not it.warm())
    it.until(lambda: not link.came_up() and link.down_s() > 0.0)
    announce(old, "policy/0.1")
    for _ in range(50):
        it.gateway.step(0.01)
    assert not it.warm() and link.down_s() > 0.0, "its key opens nothing any more"


def test_a_worker_for_which_nobody_waits_any_more_is_ended_when_it_is_ready(
    bench: Callable[[int], Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was drained, or its heir has taken its place, while it loaded its model."""

    def refuse(worker_id: str, now_s: float) -> None:
        raise ValueError("nobody waits for it")

    it = bench(0)
    killed: list[tuple[str, str]] = []
    monkeypatch.setattr(it.cluster, "ready", refuse)
    monkeypatch.setattr(it.cluster, "kill", lambda *life: killed.append(life))
    late, _ = it.connect(it.keys.issue("policy/0.1"))
    announce(late, "policy/0.1")
    it.until(lambda: killed)
    assert killed == [("policy/0.1", "nobody waits for it")] and not it.warm()


def test_a_worker_speaks_under_the_name_of_its_key_alone(bench: Callable[[int], Bench]) -> None:
    it = bench(0)
    mine, _ = it.connect(it.keys.issue("policy/0.1"))
    announce(mine, "policy/1.1")
    for _ in range(50):
        it.gateway.step(0.01)
    assert not it.warm()


def test_a_stranger_gets_no_further_than_the_handshake_and_many_of_them_leave_room_for_workers(
    bench: Callable[[int], Bench],
) -> None:
    it = bench(0)
    public, secret = zmq.curve_keypair()
    server = it.keys.issue("policy/9.1").server
    stranger, link = it.connect(WorkerKeyPair(public.decode(), secret.decode(), server))
    announce(stranger, "policy/0.1")
    port = int(it.gateway.workers.endpoint.rpartition(":")[2])
    with contextlib.ExitStack() as crowd:
        silent = [
            crowd.enter_context(contextlib.closing(socket.create_connection(("127.0.0.1", port))))
            for _ in range(3 * MAX_STRANGERS)
        ]
        it.until(lambda: sum(ended(one) for one in silent) >= len(silent) - MAX_STRANGERS)
        worker, _ = it.connect(it.keys.issue("policy/0.1"))
        announce(worker, "policy/0.1")
        it.until(lambda: it.warm() == {"policy/0.1"})
    assert not link.came_up()


def executed(batch: Dispatch) -> list[codec.Frame]:
    size = len(batch.calls)
    tickets = [call.ticket for call in batch.calls]
    return codec.encode(m.Executed(batch.batch_id, tickets, 1.0, [("", "")] * size, [OUTPUT] * size))


def ended(one: socket.socket) -> bool:
    """Whether the other side has closed a connection; its greeting may have come before."""
    one.setblocking(False)
    try:
        while data := one.recv(1000):
            assert data
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


@pytest.mark.parametrize("announced", [True, False])
def test_a_workers_key_holds_no_more_connections_than_strangers_and_its_own(
    bench: Callable[[int], Bench], announced: bool
) -> None:
    """Each takes two descriptors, which the robots need."""
    it = bench(0)
    pair = it.keys.issue("policy/0.1")
    it.cluster.ready = lambda worker_id, now_s: None  # type: ignore[method-assign]
    ready = codec.encode(m.WorkerReady("policy/0.1", "policy", 4, state=NEEDS))
    done = codec.encode(m.Executed(0, [], 0.0, [], []))
    heard = 2 * MAX_STRANGERS
    for _ in range(heard):
        it.connect(pair)[0].send_multipart(ready if announced else done)
    accepted: set[int] = set()
    doorman = it.gateway.workers._links._doorman  # type: ignore[attr-defined]

    def all_were() -> bool:
        accepted.update(doorman._lines)
        return len(accepted) >= heard and len(doorman._lines) <= MAX_STRANGERS + 1

    it.until(all_were)
    assert it.warm() == ({"policy/0.1"} if announced else set())


def test_a_worker_that_announces_itself_again_and_again_does_not_fill_the_log(
    bench: Callable[[int], Bench], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "rosa.server")
    it = bench(0)
    it.cluster.ready = lambda worker_id, now_s: None  # type: ignore[method-assign]
    begun_s = time.monotonic()
    said, _ = it.connect(it.keys.issue("policy/0.1"))
    for number in range(200):
        said.send_multipart(codec.encode(m.WorkerReady("policy/0.1", "policy", 1 + number, state=NEEDS)))
    it.until(lambda: any(worker.max_batch == 200 for worker in it.core.pool))
    most = 2 + (time.monotonic() - begun_s) / 10.0  # the first, and one every ten seconds
    assert 2 <= [one.getMessage() for one in caplog.records].count("worker_ready") <= most
