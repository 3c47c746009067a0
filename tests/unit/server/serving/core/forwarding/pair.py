"""Two gateways of one schedule on a stage: what one says the other hears, unless a test says otherwise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rosa_contract.config.factory import parse_factory
from rosa_contract.wire import codec
from rosa_contract.wire import messages as m
from rosa_server.plan.fleet_plan import FleetPlan
from rosa_server.plan.nodes import NodePlan
from rosa_server.plan.peering import Forward, Forwarded, ToPeer
from rosa_server.plan.placement import Placement
from rosa_server.serving.core.forwarding.node import NodeCore
from rosa_server.serving.core.queueing.actions import Dispatch, Kill, Note, Reply, Say, Tell
from rosa_server.serving.core.sessions.homes import Grant, KeepsGrants, KeptAtOnce, SlotTokens
from tests.unit.server.serving.core.planned import FACTORY, PLACEMENT
from tests.unit.server.serving.core.stage import IMAGES, STATE, hello, request

SERVER_ON = {"gpu0": "a", "gpu1": "b", "gpu2": "b", "spare": "a"}
HOME = {"pick/0": "a", "pick/1": "b", "sort/0": "a"}
GATEWAYS = {"a": "tcp://127.0.0.1:1", "b": "tcp://127.0.0.1:2"}
TOKENS = SlotTokens(b"secret")
STEP_S = 0.05


class Node:
    """One gateway with the workers of its node, each of which does what a test tells it."""

    def __init__(
        self,
        name: str,
        placement: Placement,
        kept: dict[str, Grant],
        life: int = 1,
        keeper: KeepsGrants | None = None,
        passing: tuple[str, ...] = (),
        plan: FleetPlan | None = None,
    ) -> None:
        self.name, self.kept = name, kept

        self.disk_full = False

        def keep(grants: Any) -> bool:
            if self.disk_full:
                return False
            kept.clear()
            kept.update(grants)
            return True

        factory = parse_factory(FACTORY.replace("QUEUE", "100"))
        nodes = NodePlan(name, SERVER_ON, HOME, GATEWAYS)
        self.core = NodeCore(
            factory,
            placement,
            nodes,
            f"{name}{life}",
            TOKENS,
            dict(kept),
            keeper or KeptAtOnce(keep),
            passing,
            plan,
        )
        self.answers: list[Reply] = []
        self.said: list[Say] = []
        self.notes: list[Note] = []
        self.held: dict[str, list[Dispatch]] = {}

    def start(self, now_s: float, *replicas: str) -> None:
        """The workers of these replicas are warm."""
        for replica in replicas:
            model = self.core.router.placement.replicas[replica].model
            needs = (IMAGES, STATE) if model == "policy" else ({}, {})
            ready = m.WorkerReady(f"{replica}/0.1", model, 4, *needs, epoch=self.core.epoch)
            self.core.on_ready(now_s, ready)

    def finish(self, now_s: float, worker: str) -> None:
        """A worker answers the oldest batch that it holds."""
        batch = self.held[worker].pop(0)
        tickets = [call.ticket for call in batch.calls]
        outputs = [f"output of {self.name}".encode()] * len(tickets)
        done = m.Executed(
            batch.batch_id, tickets, 10.0, [("", "")] * len(tickets), outputs, epoch=self.core.epoch
        )
        self.core.on_executed(now_s, worker, done)

    def refusals(self) -> list[str]:
        return [say.message.cause for say in self.said if isinstance(say.message, m.Refused)]


class Pair:
    """`cut`: nothing gets from one to the other. `lost`: kinds of messages that are lost."""

    def __init__(self, placement: Placement = PLACEMENT) -> None:
        self.now_s = 100.0
        self.cut = False
        self.lost: tuple[type, ...] = ()
        self.carried: list[tuple[str, ToPeer]] = []  # who said what
        self.kept: dict[str, dict[str, Grant]] = {"a": {}, "b": {}}
        self.nodes = {name: Node(name, placement, self.kept[name]) for name in "ab"}
        self.a, self.b = self.nodes["a"], self.nodes["b"]
        self.a.start(self.now_s, "gpu0", "spare/policy", "spare/guard")
        self.b.start(self.now_s, "gpu1", "gpu2")
        self.wait(0.3)

    def settle(self) -> None:
        """Until nobody has anything to say."""
        busy = True
        while busy:
            busy = False
            for name, node in self.nodes.items():
                node.core.tick(self.now_s)
                for action in node.core.actions():
                    busy |= isinstance(action, Tell) and isinstance(action.message, Forward | Forwarded)
                    self._act(name, node, action)

    def _act(self, name: str, node: Node, action: Any) -> None:
        if isinstance(action, Tell):
            self.carried.append((name, action.message))
            if not self.cut and not isinstance(action.message, self.lost):
                self.nodes[action.node].core.on_peer(self.now_s, name, action.message)
        elif isinstance(action, Reply):
            node.answers.append(action)
        elif isinstance(action, Say):
            node.said.append(action)
        elif isinstance(action, Dispatch):
            node.held.setdefault(action.worker_id, []).append(action)
        elif isinstance(action, Note):
            node.notes.append(action)
        else:
            assert not isinstance(action, Kill) or "not in the new schedule" in action.reason, action

    def wait(self, seconds: float) -> None:
        """Let time pass in small steps, as beats come often."""
        end_s = self.now_s + seconds
        while self.now_s < end_s - 1e-9:
            self.now_s = min(end_s, self.now_s + STEP_S)
            self.settle()
        self.settle()

    def greet(self, node: Node, robot: str, task: str = "pick", token: str = "") -> m.Welcome | m.Refused:
        """A robot says hello. Its connection is its name in bytes."""
        before = len(node.said)
        said = replace(hello(robot, task=task), token=token)
        node.core.on_robot(self.now_s, robot.encode(), said, proven=True)
        self.settle()
        answer = next(s.message for s in node.said[before:] if s.connection == robot.encode())
        assert isinstance(answer, m.Welcome | m.Refused)
        return answer

    def ask(
        self, node: Node, robot: str, number: int, component: str = "system1", budget_ms: float = 300.0
    ) -> None:
        frames = codec.encode(request(number, component, budget_ms))
        node.core.on_request(self.now_s, robot.encode(), codec.read_header(frames), frames)
        self.settle()

    def said(self, kind: type) -> list[Any]:
        return [message for _, message in self.carried if isinstance(message, kind)]
