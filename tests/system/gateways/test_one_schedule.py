"""Two gateways of one schedule, as real processes: calls are forwarded, and robots of a killed one keep their slots."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import zmq

from rosa_contract.clock import MonotonicClock
from rosa_contract.config.factory import load_factory
from rosa_contract.keyfile import load_robot_keys
from rosa_contract.wire import codec
from rosa_contract.wire import messages as m
from rosa_server.plan.nodes_file import load_nodes
from rosa_server.plan.peering import Beat, Forward, Forwarded, PeerHello
from rosa_server.plan.placement import Placement
from rosa_server.scheduler.placement.schedule import load_schedule
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_server.scheduler.running.handover import hand_over
from rosa_server.serving.base.readiness import Readiness
from rosa_server.serving.edge.access import ZAP_ENDPOINT, admit
from rosa_server.serving.edge.peer_links import PeerLinks
from rosa_server.serving.joining import FIRST_EPOCH, SharedSchedule, join
from tests.system.gateways.nodes import Asks, TwoNodes, run_until
from tests.system.server_harness import PATIENCE_S, Server, robot

BUDGET_MS = 300_000.0
COMPONENTS = {"pick": ("system1", "safety"), "sort": ("system1",)}


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoNodes]:
    made = TwoNodes(tmp_path_factory.mktemp("nodes"))
    yield made
    made.kill()


def joined_of(nodes: TwoNodes, here: str) -> SharedSchedule:
    """What `rosa serve` makes of the same files."""
    factory = load_factory(nodes.a.config)
    source = str(nodes.folder / "a" / "plan.json")
    library = ProfileLibrary(nodes.folder / "profiles")
    placement: Placement = hand_over(factory, load_schedule(source), source, library)[0]
    return join(factory, placement, load_nodes(nodes.nodes_file), str(nodes.nodes_file), here)


def wait_for(server: Server, event: str, **fields: str) -> dict[str, Any]:
    end_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < end_s:
        for line in server.events(event):
            if all(line[key] == value for key, value in fields.items()):
                return line
        time.sleep(0.05)
    raise AssertionError(f"no {event} with {fields}:\n{server.log()}")


def slot_of(server: Server, name: str) -> str:
    """The slot with which a robot has joined last."""
    return str([line for line in server.events("robot_joined") if line["robot"] == name][-1]["slot"])


def test_robots_of_a_killed_gateway_go_on_at_the_other_one_with_their_slots(planned: TwoNodes) -> None:
    a, b = planned.a, planned.b
    home = joined_of(planned, "a").nodes.home
    names = {"pick/0": "p0", "pick/1": "p1", "sort/0": "s0"}
    for server in (a, b):
        server.start()
    with ExitStack() as stack:
        robots = {}
        for slot, name in names.items():
            task = slot.partition("/")[0]
            # Each knows the gateway of its slot alone, and learns of the other one.
            one = robots[name] = Asks(name, task, planned.servers[home[slot]].endpoint, COMPONENTS[task])
            stack.callback(one.link.close)
        everybody = list(robots.values())

        def logs() -> str:
            return a.log() + "\n" + b.log()

        def answered(times: int) -> None:
            wanted = {
                (one.name, component): sum(c == component for _, c, _ in one.answered) + times
                for one in everybody
                for component in COMPONENTS["pick" if one.name[0] == "p" else "sort"]
            }
            run_until(
                everybody,
                lambda: all(
                    sum(c == component for _, c, _ in robots[name].answered) >= count
                    for (name, component), count in wanted.items()
                ),
                logs,
            )

        answered(5)
        for slot, name in names.items():
            assert slot_of(planned.servers[home[slot]], name) == slot
        assert home["pick/0"] == "a", "it has the server of its System 1"
        started = {
            name: {line["model"] for line in planned.servers[name].events("worker_started")} for name in "ab"
        }
        assert "emulated/guard" not in started["a"]
        assert robots["p0"].count("safety", a.endpoint), "only b has a worker for it"

        a.stop(signal.SIGKILL)
        run_until(everybody, lambda: robots["p0"].count("safety", b.endpoint) >= 5, logs)
        answered(5)
        run_until(everybody, lambda: {one.link.endpoint for one in everybody} == {b.endpoint}, logs)
        run_until(everybody, lambda: b.events("robot_joined"), logs)
        assert slot_of(b, "p0") == "pick/0", "the proof of its slot counts here, too"

        a.start()
        run_until(everybody, lambda: len(b.events("peer_here")) > 1, logs)
        wait_for(a, "peer_here", node="b")
        with robot(a, "newcomer") as other:  # a knows whose its slot is, although it was killed
            end_s = time.monotonic() + PATIENCE_S
            answer = other.hello("pick", cameras={}, state={})
            while isinstance(answer, m.Refused) and answer.cause == "not_ready":
                answer = other.hello("pick", cameras={}, state={})
                assert time.monotonic() < end_s, logs()
                for one in everybody:
                    one.step()
            assert isinstance(answer, m.Refused) and answer.cause == "admission_off", answer
        answered(5)
        # Whoever is too slow for a heartbeat now may move once more.
        by_endpoint = {server.endpoint: server for server in (a, b)}
        run_until(everybody, lambda: slot_of(by_endpoint[robots["p0"].link.endpoint], "p0") == "pick/0", logs)
        run_until(everybody, lambda: robots["p0"].link.ready, logs)
    for server in (a, b):
        assert server.stop() == 0, server.log()


class Impostor:
    """What calls itself the gateway of `b`, with its keys, in the hand of the test."""

    def __init__(self, joined: SharedSchedule) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._zap = self._context.socket(zmq.REP)
        self._zap.bind(ZAP_ENDPOINT)
        self.joined, self._clock = joined, MonotonicClock()
        hello = PeerHello("b", "b1", joined.schedule)
        self.links = PeerLinks(self._context, hello, joined.endpoints, joined.keys, 1 << 20, lambda _: None)
        self.links.listen()
        self._readiness = Readiness()
        self._readiness.register(self._zap)
        self.links.register(self._readiness)
        self._number = 0
        self.asked: list[Forward] = []
        here = [
            one for one in joined.placement.replicas.values() if joined.nodes.server_on[one.server] == "b"
        ]
        self.warm = [m.WorkerReady(f"{one.id}/0.1", one.model, 4, epoch=FIRST_EPOCH) for one in here]

    def step(self) -> None:
        for socket in self._readiness.wait(20):
            if socket is self._zap:
                self._zap.send_multipart(admit(self._zap.recv_multipart(), None, None, self.joined.keys))
        now_s = self._clock.now_s()
        self.links.look(now_s, at_once=True)
        self.asked += [one for _, one in self.links.received(now_s) if isinstance(one, Forward)]
        self._number += 1
        self.links.send("a", Beat("b", "b1", FIRST_EPOCH, self._number, 0, warm=self.warm))

    def answer(self, asked: Forward, epoch: int) -> None:
        output = codec.encode_output(m.Output(verdict="safe", text=f"epoch {epoch}"))
        names = (asked.number, asked.life, epoch, asked.session, asked.request_id)
        self.links.send("a", Forwarded(*names, "", "", "", 5.0, 1, output))

    def close(self) -> None:
        self.links.close()
        self._zap.close()
        self._context.term()


def test_an_answer_of_an_old_epoch_and_a_second_one_count_for_nothing(planned: TwoNodes) -> None:
    server = planned.with_keys("a", "r0")
    (planned.folder / "state" / f"a-{server.port}.slots").unlink(missing_ok=True)
    server.start()
    with ExitStack() as stack:
        stack.callback(server.kill)
        other = Impostor(joined_of(planned, "b"))
        stack.callback(other.close)
        keys = load_robot_keys(planned.folder / "keys", "r0")
        one = stack.enter_context(robot(server, "r0", keys=(keys.server, keys.public, keys.secret)))

        def until(done: Any) -> None:
            end_s = time.monotonic() + PATIENCE_S
            while not done():
                assert time.monotonic() < end_s, server.log()
                other.step()

        def greeted() -> m.Welcome | None:
            if not one.socket.poll(0):
                return None
            said = one.receive()
            if isinstance(said, m.Welcome):
                return said
            assert isinstance(said, m.Refused) and said.cause == "not_ready", said
            one.send(m.Hello("r0", "pick", {}, {}))
            return None

        welcome: list[m.Welcome] = []
        one.send(m.Hello("r0", "pick", {}, {}))
        until(lambda: welcome or welcome.extend(filter(None, [greeted()])))
        assert welcome[0].gateways == (server.endpoint, planned.b.endpoint)

        def answers_until(epoch: int, done: Any) -> None:
            """Answer each call in this epoch, again and again: on a busy machine a link may end, and it comes anew."""

            def step() -> bool:
                for asked in other.asked[-1:]:
                    other.answer(asked, epoch)
                return bool(done())

            until(step)

        one.request(1, component="safety", budget_ms=BUDGET_MS, images={}, state={})
        until(lambda: other.asked)
        asked = other.asked[0]
        names = (asked.robot_id, asked.request_id, asked.component, asked.epoch)
        assert names == ("r0", 1, "safety", FIRST_EPOCH) and 0 < asked.budget_ms <= BUDGET_MS
        answers_until(FIRST_EPOCH - 1, lambda: server.events("old_epoch"))
        assert not one.socket.poll(0)
        answers_until(FIRST_EPOCH, lambda: one.socket.poll(0))
        answers_until(FIRST_EPOCH, lambda: server.events("late_forward"))
        first = one.receive()
        assert isinstance(first, m.Response) and first.output is not None
        assert (first.request_id, first.status, first.output.text) == (1, "ok", f"epoch {FIRST_EPOCH}")

        one.request(2, component="safety", budget_ms=BUDGET_MS, images={}, state={})
        answers_until(FIRST_EPOCH, lambda: one.socket.poll(0))
        second = one.receive()
        assert isinstance(second, m.Response) and second.request_id == 2, "nothing came in between"
