"""What gateways of one schedule decide about a call: one that runs on its own node, one that is handed on, and beats.

CPU time of the decisions alone, with production's cores: no socket, no codec.
"""

from __future__ import annotations

import time
from typing import Any

from rosa_contract.wire import messages as m
from rosa_contract.wire.codec import request_header
from rosa_server.plan.nodes import NodePlan, homes
from rosa_server.plan.peering import Beat, Forward
from rosa_server.plan.placement import Replica
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_server.serving.core.forwarding.node import NodeCore
from rosa_server.serving.core.forwarding.peer import BEAT_EVERY_S
from rosa_server.serving.core.queueing.actions import Dispatch, Reply, Tell
from rosa_server.serving.core.sessions.homes import KeptAtOnce, SlotTokens
from rosa_server.simulator.servers import CHUNK, LARGEST_BATCH, Serving
from rosa_sim.fleet.scenario import load_scenario
from rosa_sim.fleet.systems import fleet_of, system_of

TASK, COMPONENT = "assemble_kit", "system1"  # of P4
ROBOTS, GPUS = 80, 8  # of a node
CALLS, WARM_UP = 3000, 300
GATEWAYS = 125
EVERY_S = 0.02  # between two calls
FRAMES = (b"",)
KEEPS = KeptAtOnce(lambda grants: True)  # nothing: these gateways are never started again
Row = dict[str, Any]


def hops() -> list[Row]:
    """A row each for a call of the node's own, a call handed on, and the beats of many gateways."""
    serving = serving_for(ROBOTS, GPUS)
    return [
        {"what": "direct", **calls(serving, "a")},
        {"what": "forwarded", **calls(serving, "b")},
        {"what": "beats", **beats(GATEWAYS)},
    ]


def serving_for(robots: int, gpus: int) -> Serving:
    """P4 with so many robots on so many GPUs. Raises `ValueError` where nothing serves them."""
    factory = fleet_of(load_scenario("p4").factory, robots, gpus)
    system = system_of("rosa", factory, ProfileLibrary(), 0.0)
    if system.serving is None:
        raise ValueError(system.refused)
    return system.serving


class TwoNodes:
    """Nodes `a` and `b` of one schedule; every server is on node `on`, every robot at home at `a`."""

    def __init__(self, serving: Serving, on: str) -> None:
        placement, self.now_s = serving.placement, 100.0
        server_on = {replica.server: on for replica in placement.replicas.values()}
        home = dict.fromkeys(placement.routes or {}, "a")
        self.spent_s, self.answers, self.forwards = 0.0, 0, 0
        self.cores: dict[str, NodeCore] = {}
        for name in "ab":
            nodes = NodePlan(name, server_on, home, {"a": "a", "b": "b"})
            tokens = SlotTokens(b"of a benchmark")
            self.cores[name] = NodeCore(serving.factory, placement, nodes, f"{name}1", tokens, {}, KEEPS)
        for replica in placement.replicas.values():
            for number in range(replica.workers):
                self.cores[on].on_ready(self.now_s, ready(replica, number))
        self.wait(0.5)

    def wait(self, seconds: float) -> None:
        """Let time pass: gateways beat."""
        end_s = self.now_s + seconds
        while self.now_s < end_s:
            self.now_s += BEAT_EVERY_S / 2
            self.settle()

    def greet(self, robot: str) -> None:
        """Raises `ValueError` where it is not served."""
        self.cores["a"].on_robot(self.now_s, robot.encode(), m.Hello(robot, TASK, {}, {}), proven=True)
        self.settle()
        if self.cores["a"].sessions.get(robot.encode()) is None:
            raise ValueError(f"{robot} is not served")

    def ask(self, robot: str, number: int) -> None:
        """A call of a robot, until it is answered; its CPU time counts."""
        self.now_s += EVERY_S
        self.settle()  # beats are not the call's
        began_s = time.thread_time()
        header = request_header(number, COMPONENT, 10_000.0)
        self.cores["a"].on_request(self.now_s, robot.encode(), header, FRAMES)
        self.settle()
        self.spent_s += time.thread_time() - began_s

    def settle(self) -> None:
        """Until nobody has anything to say. Batches are answered at once."""
        busy = True
        while busy:
            busy = False
            for name, core in self.cores.items():
                core.tick(self.now_s)
                for action in core.actions():
                    if isinstance(action, Tell):
                        self.forwards += isinstance(action.message, Forward)
                        self.cores[action.node].on_peer(self.now_s, name, action.message)
                        busy = True
                    elif isinstance(action, Dispatch):
                        core.on_executed(self.now_s, action.worker_id, executed(action, core.epoch))
                        busy = True
                    elif isinstance(action, Reply):
                        self.answers += action.status == m.OK


def calls(serving: Serving, on: str) -> Row:
    """CPU time of one call, whose model is on node `on`; both gateways' together."""
    stage = TwoNodes(serving, on)
    robots = [f"robot{number}" for number in range(ROBOTS)]
    for robot in robots:
        stage.greet(robot)
    for number in range(WARM_UP + CALLS):
        if number == WARM_UP:
            stage.spent_s, stage.answers, stage.forwards = 0.0, 0, 0
        stage.ask(robots[number % ROBOTS], number)
    return {
        "calls": CALLS,
        "answered_ok": stage.answers,
        "handed_on": stage.forwards,
        "cpu_us": round(stage.spent_s / CALLS * 1e6, 1),
    }


def beats(gateways: int) -> Row:
    """One of so many gateways hears the beats of all others and says its own, for two seconds."""
    serving = serving_for(ROBOTS * gateways, GPUS * gateways)
    placement = serving.placement
    names = [f"n{number:03d}" for number in range(gateways)]
    servers = sorted({replica.server for replica in placement.replicas.values()})
    each = -(-len(servers) // gateways)
    server_on = {server: names[number // each] for number, server in enumerate(servers)}
    home = homes(placement, server_on, names)
    here, *others = names
    began_s = time.process_time()
    nodes = NodePlan(here, server_on, home, dict(zip(names, names, strict=True)))
    core = NodeCore(serving.factory, placement, nodes, "life", SlotTokens(b"of a benchmark"), {}, KEEPS)
    made_s = time.process_time() - began_s
    warm: dict[str, list[m.WorkerReady]] = {name: [] for name in names}
    for replica in placement.replicas.values():
        warm[server_on[replica.server]].append(ready(replica, 0))
    grants: dict[str, dict[str, tuple[int, str]]] = {name: {} for name in names}
    for slot, name in home.items():
        grants[name][slot] = (1, slot.replace("/", "-"))
    for one in warm[here]:
        core.on_ready(0.0, one)
    heard, spent_s, now_s = 0, 0.0, 0.0
    for number in range(1, 23):
        if number == 3:  # by then all are there
            heard, spent_s = 0, 0.0
        for index, name in enumerate(others):
            said_s = now_s + BEAT_EVERY_S * index / len(others)
            beat = Beat(name, "life", core.epoch, number, warm=warm[name], grants=grants[name])
            began_s = time.thread_time()
            core.on_peer(said_s, name, beat)
            core.tick(said_s)
            core.actions()
            spent_s += time.thread_time() - began_s
            heard += 1
        now_s += BEAT_EVERY_S
    assert all(peer.state == "here" for peer in core.peers.values())
    return {
        "gateways": gateways,
        "beats_per_s": round((gateways - 1) / BEAT_EVERY_S),
        "us_per_beat": round(spent_s / heard * 1e6, 1),
        "share_of_a_core": round(spent_s / heard * (gateways - 1) / BEAT_EVERY_S, 4),
        "made_cpu_s": round(made_s, 2),
    }


def ready(replica: Replica, number: int) -> m.WorkerReady:
    """A worker of a replica that is warm."""
    largest = replica.batch or LARGEST_BATCH
    return m.WorkerReady(f"{replica.id}/{number}.1", replica.model, largest, {}, {}, replica.at_once or 1)


def executed(batch: Dispatch, epoch: int) -> m.Executed:
    """A batch that took no time."""
    size = len(batch.calls)
    tickets = [call.ticket for call in batch.calls]
    return m.Executed(batch.batch_id, tickets, 1.0, [("", "")] * size, [CHUNK] * size, epoch=epoch)
