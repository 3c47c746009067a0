"""Several gateways of one schedule, their robots, and a plan of what goes wrong between them.

Each node runs production's core of a gateway by its own clock, and each robot production's core, greeting and list
of gateways. What a node must not forget is on its disk; everything else ends with it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

from rosa_client.connection.greeting import Greeting
from rosa_contract.wire.messages import OK, Hello, Output, ToRobot, Welcome
from rosa_server.plan.fleet_plan import FleetPlan
from rosa_server.plan.nodes import NodePlan, homes, seen_from
from rosa_server.plan.peering import Forward, ToPeer
from rosa_server.plan.placement import Placement
from rosa_server.serving.core.forwarding.invariants import Fleet
from rosa_server.serving.core.queueing.actions import Action, Reply
from rosa_server.serving.core.sessions.homes import Grant, SlotTokens
from rosa_server.simulator.servers import Serving
from rosa_sim.chaos.node import ChaosNode, clock_of
from rosa_sim.chaos.plan import Fault, Plan
from rosa_sim.chaos.rescheduling import ChangeOrder, order
from rosa_sim.chaos.roaming import RoamingLink
from rosa_sim.chaos.robots import FaultyRobots
from rosa_sim.chaos.servers import serving_of
from rosa_sim.chaos.traced import Traced
from rosa_sim.chaos.watch import Broken, raise_first
from rosa_sim.fleet.simulation import Joining

LOOKS_EVERY_S = 0.25
ENDS_WITHIN_S = 90.0  # after the last fault
RECOVERS_WITHIN_S = (
    45.0  # after the last fault each robot is served with its slot, and each gateway knows the others
)
HEARTBEATS_MISS_S = 1.1  # after so long a cut link counts as ended
PEER_LATENCY_S = 0.0005
LOSES_FILE = 0.3  # share of the robots that are started again
RECOVERS = "recovers"


class NodesWorld(FaultyRobots):
    """One run of a plan with several nodes. Whatever breaks a promise raises `Broken`."""

    def __init__(self, plan: Plan) -> None:
        self.fleet = Fleet()
        serving = serving_of(plan)
        self._whole, self._placement = serving, serving.placement
        self.names = [f"n{index:02d}" for index in range(plan.nodes)]
        self.servers = sorted({one.server for one in serving.placement.replicas.values()})
        spread = max(1, -(-len(self.servers) // plan.nodes))
        self.server_on = {s: self.names[min(i // spread, plan.nodes - 1)] for i, s in enumerate(self.servers)}
        rng = Random(f"nodes start {plan.seed}")
        self.home = self._homes(rng)
        self._first = FleetPlan(serving.placement, self.server_on, self.home)
        self._spare = 0  # slots that no robot needs
        self.secret = SlotTokens(b"the secret of the chaos")
        self.disks: dict[str, dict[str, Grant]] = {name: {} for name in self.names}
        self.plans: dict[str, list[FleetPlan]] = {name: [self._first] for name in self.names}
        self.clocks = {name: clock_of(rng) for name in self.names}
        self._node_lives: Counter[str] = Counter()
        self._token_of: dict[str, str] = {}  # what each robot keeps in its file
        self.nodes: dict[str, ChaosNode] = {}
        self.orders: list[ChangeOrder] = []
        self._hops: Counter[str] = Counter()
        self._sides: dict[str, dict[int, str]] = {}  # robot -> a cut that is -> the node on whose side it is
        self._ends_of: dict[bytes, tuple[Any, str]] = {}  # connection -> seat, node
        super().__init__(plan, "nodes run", Serving(serving.factory, Placement({}), {}))
        for name in self.names:
            self._switch_on_node(name)
        self._robots(rng)
        for fault in plan.faults:
            self.at(fault.at_s, partial(self._begin_fault, fault))
            self.at(fault.at_s + fault.lasts_s, partial(self._end_fault, fault))
        self.at(LOOKS_EVERY_S, self._look)

    def _homes(self, rng: Random) -> dict[str, str]:
        """As production does it, or anyhow: then most calls are forwarded."""
        if rng.random() < 0.5:
            return homes(self._placement, self.server_on, self.names)
        slots = sorted(self._placement.routes or {})
        return {slot: self.names[index % len(self.names)] for index, slot in enumerate(slots)}

    def _robots(self, rng: Random) -> None:
        self._begins_at: dict[str, str] = {}  # robot -> the node that it knows first
        some_stay_out = rng.random() < 0.5  # then slots are free
        for entry in self._whole.factory.robot_fleet:
            for index in range(entry.num_robots):
                name = f"{entry.task}-{index}"
                if some_stay_out and index % 4 == 3:
                    self._spare += 1
                    continue
                self._numbers[name] = len(self._numbers)
                self._begins_at[name] = self.home.get(f"{entry.task}/{index}", self.names[0])
                self.join(Joining(name, entry.task, rng.random(), 0.0))

    # -- the run -------------------------------------------------------------------------------------------------------

    def play(self) -> None:
        """Run the plan, then wait until all is well again. Raises `Broken`."""
        self.run(self.plan.seconds)
        self.calm = True
        for seat in self._live():
            seat.robot.no_person()
        while wrong := self._not_recovered():
            if self.now_s > self.plan.seconds + RECOVERS_WITHIN_S:
                raise Broken(RECOVERS, f"{wrong}, {RECOVERS_WITHIN_S:g} s after the last fault", self.now_s)
            self.run(self.now_s + 1.0)
        while waiting := [seat.robot for seat in self._live() if not self._settled(seat.robot)]:
            if self.now_s > self.plan.seconds + ENDS_WITHIN_S:
                one = waiting[0]
                words = f"{one.name} is {one.core.state.value}, {ENDS_WITHIN_S:g} s after the last fault"
                raise Broken("every_task_ends", words, self.now_s)
            self.run(self.now_s + 1.0)

    def _not_recovered(self) -> str:
        """What is not as it should be when nothing is wrong any more."""
        for seat in self._live():
            if not seat.link.ready:
                return f"{seat.robot.name} is not served: {seat.link.reason}"
        for node in self.nodes.values():
            for name, peer in node.node_core.peers.items():
                if peer.state != "here":
                    return f"{node.name} takes {name} for {peer.state}"
        epochs = {node.node_core.epoch for node in self.nodes.values()}
        if len(epochs) > 1:
            return f"gateways run the schedules {', '.join(map(str, sorted(epochs)))}"
        return ""

    def _look(self, now_s: float) -> None:
        for seat in self._live():
            seat.robot.watch.look(now_s)
        if round(now_s / LOOKS_EVERY_S) % 40 == 0:
            self.fleet.forget()
            for node in self.nodes.values():
                node.forget()
        self.at(now_s + LOOKS_EVERY_S, self._look)

    def _tick_core(self) -> None:
        """The core of the simulation has nobody to serve; the nodes tick theirs."""

    # -- nodes ---------------------------------------------------------------------------------------------------------

    def _switch_on_node(self, name: str) -> None:
        self._node_lives[name] += 1
        nodes = NodePlan(name, self.server_on, self.home, {one: one for one in self.names})
        whole = self._whole
        plan = self.plans[name][-1]
        serving = Serving(
            whole.factory, seen_from(plan.placement, nodes), whole.services, None, whole.variation
        )
        life = f"{name}.{self._node_lives[name]}"
        seed = self.plan.seed * 1000 + self._node_lives[name]
        about = (life, self.clocks[name], self.secret, self.plans[name], self.disks[name], seed)
        self.fleet.adopted[name] = []
        raise_first(self.fleet.runs(name, plan), self.now_s)
        self.nodes[name] = node = ChaosNode(self, nodes, serving, *about)
        node.begin()

    def runs(self, node: ChaosNode, plan: FleetPlan) -> None:
        """A gateway runs another schedule from now on."""
        raise_first(self.fleet.runs(node.name, plan), self.now_s)
        self.counts["adopted by a node"] += 1

    def _node_dies(self, name: str, silent: bool) -> None:
        """`silent`: nobody hears a word of it."""
        node = self.nodes.pop(name, None)
        if node is None:
            return
        node.alive = False
        for seat, at in list(self._ends_of.values()):
            if at == name:
                seat.link.lost_s = self.now_s + (HEARTBEATS_MISS_S if silent else 0.001)
                self._connect(seat)
                self._wake_at(self.now_s, seat, min(seat.wake_s, seat.link.lost_s))
        for other in self.nodes.values():
            if not silent and not self._cut(name, other.name):
                other.peer_ended(name)

    def active(self, *kinds: str) -> list[Fault]:
        return self._active(*kinds)

    def hits_server(self, fault: Fault, server: str) -> bool:
        return not fault.targets or self.servers.index(server) in {
            t % len(self.servers) for t in fault.targets
        }

    def _hits_node(self, fault: Fault, name: str) -> bool:
        return not fault.targets or self.names.index(name) in {t % len(self.names) for t in fault.targets}

    def _cut(self, one: str, other: str) -> bool:
        """Whether nothing gets from one node to the other."""
        return any(self._hits_node(f, one) != self._hits_node(f, other) for f in self._active("node_cut"))

    def to_node(self, node: ChaosNode, to: str, message: ToPeer) -> None:
        """Carry a message from one gateway to another one."""
        raise_first(self.fleet.told(node.name, to, message, node.left_s), self.now_s)
        self.counts["forwarded"] += isinstance(message, Forward)
        if self._cut(node.name, to):
            return
        times = [self.now_s + PEER_LATENCY_S]
        for fault in self._now:
            if not fault.kind.startswith("peer_") or not (
                self._hits_node(fault, node.name) or self._hits_node(fault, to)
            ):
                continue
            draw = self._draw.random
            if fault.kind == "peer_loss":
                times = [t for t in times if draw() >= fault.amount]
            elif fault.kind == "peer_delay":
                times = [t + fault.amount for t in times]
            elif fault.kind == "peer_reordering":
                times = [t + draw() * fault.amount for t in times]
            elif draw() < fault.amount:
                times += [t + draw() * 0.5 for t in times]
        for time_s in times:
            self.at(time_s, partial(self._node_hears, node.name, to, message))

    def _node_hears(self, node: str, to: str, message: ToPeer, now_s: float) -> None:
        """Its next life may hear it, too: a connection ends with its process, and the decisions do not lean on that."""
        if to in self.nodes and not self._cut(node, to):
            self.nodes[to].from_node(node, message)

    def acted(self, node: ChaosNode, action: Action) -> None:
        if not isinstance(action, Reply):
            return
        if action.status == OK and isinstance(action.output, Traced):
            made, call = action.output, action.call
            asked = (call.robot_id, call.component, call.request_id)
            raise_first(self.fleet.made_for(asked, made.asked), self.now_s)
            given_to = call.worker_id.rpartition("/")[0]
            raise_first(self.fleet.ran(node.name, node.node_core.epoch, made, given_to), self.now_s)
        known = self._ends_of.get(action.call.connection)
        if known is not None:
            self.counts[f"answer {action.cause or OK}"] += 1
            life = action.call.connection.decode().rpartition("~")[0]
            raise_first(self.fleet.answered(life, action.call.request_id, node.name), self.now_s)

    def said(self, output: Output) -> Output:
        return self._said(output)

    # -- robots --------------------------------------------------------------------------------------------------------

    def _new_link(self, hello: Hello) -> Greeting:
        first = self._begins_at[hello.robot_id]
        rest = [name for name in self.names if name != first]
        alone = self._draw.random() < 0.5
        hello = replace(hello, token=self._token_of.get(hello.robot_id, ""))
        return RoamingLink([first] if alone else [first, *rest], hello)

    def join(self, joining: Joining) -> None:
        super().join(joining)
        seat: Any = next(s for s in self._seats.values() if s.robot.name == joining.name)
        self._sides[joining.name] = {}
        self._connect(seat)

    def _connect(self, seat: Any) -> bytes:
        """A robot connects to the gateway that its link has chosen, with a connection that nobody had. Returns the one
        of before."""
        before: bytes = seat.connection
        del self._seats[before]
        self._ends_of.pop(before, None)
        self._hops[seat.robot.name] += 1
        life = f"{seat.robot.name}.{self._lives_of[seat.robot.name]}"
        seat.connection = f"{life}~{self._hops[seat.robot.name]}".encode()
        self._seats[seat.connection] = seat
        self._ends_of[seat.connection] = (seat, seat.link.endpoint)
        return before

    def _reaches(self, seat: Any, node: str) -> bool:
        """A node that is cut off with its robots keeps those that it had, and no others reach it."""
        return not any(
            fault.amount >= 0.5
            and self._hits_node(fault, node)
            != self._hits_node(fault, self._sides[seat.robot.name].get(id(fault), node))
            for fault in self._active("node_cut")
        )

    def _wake(self, now_s: float, seat: Any) -> None:
        link = seat.link
        was_ready = link.ready
        before = link.moves(now_s)
        if was_ready and not link.ready:
            self.fleet.unserved(seat.robot.name)
        if before:
            self.counts["moves"] += 1
            old = self._connect(seat)
            if self._reaches(seat, before):
                self.at(now_s + 0.001, partial(self._ended_at, before, old))
        if was_ready and not link.ready:
            self._requests(now_s, seat, seat.robot.linked(now_s))
        super()._wake(now_s, seat)
        if was_ready and not link.ready:
            self.fleet.unserved(seat.robot.name)

    def _ended_at(self, name: str, connection: bytes, now_s: float) -> None:
        if name in self.nodes:
            self.nodes[name].gone(connection)

    def _connection_ended(self, now_s: float, seat: Any) -> None:
        """A robot was switched off; some lose the file with their proof, and have their name alone."""
        if self._draw.random() < LOSES_FILE:
            self._token_of.pop(seat.robot.name, None)
            self.fleet.forgets(seat.robot.name)
        self.fleet.unserved(seat.robot.name)
        at = self._ends_of.pop(seat.connection, None)
        if at is not None and at[1] in self.nodes:
            self.nodes[at[1]].gone(seat.connection)

    def _to_gateway(self, now_s: float, seat: Any, message: Any) -> None:
        connection, message = message
        at = self._ends_of.get(connection)
        if at is None or at[1] not in self.nodes or not self._reaches(seat, at[1]):
            return
        self.nodes[at[1]].from_robot(connection, message)

    def _send(self, now_s: float, seat: Any, message: Any) -> None:
        super()._send(now_s, seat, (seat.connection, message))

    def to_robot(self, node: ChaosNode, connection: bytes, message: ToRobot) -> None:
        at = self._ends_of.get(connection)
        if at is not None and at[0].connection == connection and self._reaches(at[0], node.name):
            self._say(self.now_s, connection, (connection, message))

    def _to_robot(self, now_s: float, seat: Any, message: Any) -> None:
        connection, message = message
        if seat.connection != connection or id(seat) in self._dead:
            return
        super()._to_robot(now_s, seat, message)
        if isinstance(message, Welcome) and seat.link.ready:
            self._token_of[seat.robot.name] = message.token
            slot = f"{seat.robot.name.rpartition('-')[0]}/{message.token.partition('x')[0]}"
            raise_first(self.fleet.served(seat.robot.name, slot), now_s)

    # -- faults --------------------------------------------------------------------------------------------------------

    def _begin_fault(self, fault: Fault, now_s: float) -> None:
        self.counts[fault.kind] += 1
        self._now.append(fault)
        if fault.kind == "node_killed":
            for name in [name for name in self.names if self._hits_node(fault, name)]:
                self._node_dies(name, fault.amount >= 0.5)
        elif fault.kind == "node_cut":
            self._cut_off(fault)
        elif fault.kind == "adopted":
            self._orders_another(fault.amount)
        elif fault.kind == "worker_killed":
            for server in [one for one in self.servers if self.hits_server(fault, one)]:
                if self.server_on[server] in self.nodes:
                    self.nodes[self.server_on[server]].end_workers(server, fault.amount)
        elif fault.kind == "robot_restarted":
            for seat in [s for s in self._live() if self._hits(fault, s)]:
                self._switch_off(seat, now_s)

    def _end_fault(self, fault: Fault, now_s: float) -> None:
        self._now.remove(fault)
        if fault.kind == "node_killed":
            for name in self.names:
                down = any(self._hits_node(f, name) for f in self._active("node_killed"))
                if name not in self.nodes and not down:
                    self._switch_on_node(name)
        elif fault.kind == "adopted":
            self._orders_another(fault.amount + 0.5)
        elif fault.kind == "worker_killed":
            for node in list(self.nodes.values()):
                node.return_workers()
        elif fault.kind == "robot_restarted":
            here = {seat.robot.name for seat in self._live()}
            for name, index in self._numbers.items():
                down = any(f.kind == fault.kind and self._hits_number(f, index) for f in self._now)
                if name not in here and not down:
                    self._switch_on(name, now_s)

    def _cut_off(self, fault: Fault) -> None:
        """The link between two groups of nodes ends; each robot stays on the side of the gateway that it has now."""
        for seat in self._live():
            self._sides[seat.robot.name][id(fault)] = seat.link.endpoint

    def _orders_another(self, seed: float) -> None:
        """A person orders another schedule, at any gateway that is there."""
        if self.nodes and not self.calm:
            node = self.nodes[Random(f"at {seed}").choice(sorted(self.nodes))]
            self.orders.append(order(node, self._first, self._spare, seed))
            self.counts["ordered"] += 1
