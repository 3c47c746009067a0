"""One node of the chaos: production's core of one gateway of several, its workers on their GPUs, and its own clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any, Protocol

from rosa_contract.wire.messages import Executed, Output, ToRobot
from rosa_server.plan.fleet_plan import FleetPlan
from rosa_server.plan.nodes import NodePlan, seen_from
from rosa_server.plan.peering import Forward, ToPeer
from rosa_server.plan.placement import Replica, replica_name
from rosa_server.serving.core.dispatch.core import ServingCore
from rosa_server.serving.core.forwarding.guests import connection_of
from rosa_server.serving.core.forwarding.node import ANSWER_GRACE_S, BORROWED, NodeCore
from rosa_server.serving.core.queueing.actions import Action, Dispatch, Kill, Tell
from rosa_server.serving.core.sessions.homes import Grant, SlotTokens
from rosa_server.simulator.fleet import NO_FRAMES
from rosa_server.simulator.servers import (
    BATCH_ENDS,
    CALL,
    GATEWAY_WAKES,
    LARGEST_BATCH,
    Serving,
    SimulatedServers,
)
from rosa_server.simulator.workers import SimulatedWorker
from rosa_sim.chaos.plan import Fault
from rosa_sim.chaos.traced import Traced
from rosa_sim.chaos.watch import ServerWatch

FORGETS_AFTER_S = 30.0
WRITES_S = 0.012  # until a slot is on its disk
MAX_NOTED = 20_000
STARTS_AGAIN_S = 3.0  # a worker that the gateway ended is warm again


@dataclass(frozen=True)
class OwnClock:
    """A node's monotonic clock: it begins anywhere, and is a little too fast or too slow."""

    begins_s: float
    rate: float

    def own_s(self, world_s: float) -> float:
        return self.begins_s + self.rate * world_s

    def world_s(self, own_s: float) -> float:
        return (own_s - self.begins_s) / self.rate


class NodeSurroundings(Protocol):
    """What a node has to know of the world."""

    now_s: float

    def at(self, time_s: float, call: Any) -> None: ...

    def active(self, *kinds: str) -> list[Fault]: ...

    def hits_server(self, fault: Fault, server: str) -> bool: ...

    def acted(self, node: ChaosNode, action: Action) -> None: ...

    def to_robot(self, node: ChaosNode, connection: bytes, message: ToRobot) -> None: ...

    def to_node(self, node: ChaosNode, to: str, message: ToPeer) -> None: ...

    def runs(self, node: ChaosNode, plan: FleetPlan) -> None: ...

    def said(self, output: Output) -> Output: ...


class WatchedNodeCore(NodeCore):
    """Shows the watch what is decided inside, before it becomes messages to other gateways."""

    node: ChaosNode

    def _outward(self, action: Action) -> Action:
        self.node.decided(action)
        return super()._outward(action)

    def run(self, now_s: float, plan: FleetPlan) -> None:
        self.node.follows(plan)
        super().run(now_s, plan)
        self.node.world.runs(self.node, plan)
        self.node.warm_all()

    def on_lost(self, now_s: float, worker_id: str, why: str) -> None:
        self.node.watching.worker_gone(worker_id)
        super().on_lost(now_s, worker_id, why)


class ChaosNode(SimulatedServers):
    """One life of the gateway of a node."""

    def __init__(
        self,
        world: NodeSurroundings,
        nodes: NodePlan,
        serving: Serving,
        life: str,
        clock: OwnClock,
        tokens: SlotTokens,
        plans: list[FleetPlan],
        kept: dict[str, Grant],
        seed: int,
    ) -> None:
        """`plans`, `kept`: what the node has on its disk, of `plans` the last one."""
        self.world, self.name, self.life, self.clock = world, nodes.here, life, clock
        self._nodes, self._tokens, self._plans, self._kept = nodes, tokens, plans, kept
        self.alive = True
        self._writings = self._written = 0
        self.watching = ServerWatch(serving.factory)
        self._silenced: set[str] = set()  # workers that have ended and the gateway does not know
        self.left_s: dict[int, float] = {}  # forwarded call -> what was left of its budget
        self._noted: dict[bytes, None] = {}
        self.now_s = clock.own_s(world.now_s)
        super().__init__(serving, seed)

    def _make_core(self, serving: Serving) -> ServingCore:
        self.now_s = self.clock.own_s(self.world.now_s)

        kept = dict(self._kept)
        about = (serving.factory, serving.placement, self._nodes, self.life, self._tokens, kept, self, ())
        self.node_core = WatchedNodeCore(*about, self._plans[-1])
        self.node_core.node = self
        return self.node_core

    # -- its disk ------------------------------------------------------------------------------------------------------

    def keep(self, grants: Mapping[str, Grant]) -> int:
        """See `KeepsGrants`: a process that ends meanwhile has not written it down."""
        self._writings += 1
        number = self._writings
        self.world.at(self.world.now_s + WRITES_S, partial(self._write, number, dict(grants)))
        return number

    def _write(self, number: int, grants: Mapping[str, Grant], _: float) -> None:
        if self.alive:
            self._kept.clear()
            self._kept.update(grants)
            self._written = number

    def keep_plan(self, plan: FleetPlan) -> int:
        """See `KeepsPlan`."""
        self._writings += 1
        number = self._writings
        self.world.at(self.world.now_s + WRITES_S, partial(self._write_plan, number, plan))
        return number

    def _write_plan(self, number: int, plan: FleetPlan, _: float) -> None:
        if self.alive:
            self._plans.append(plan)
            self._written = number

    def kept(self, number: int) -> bool | None:
        return True if number <= self._written else None

    # -- time ----------------------------------------------------------------------------------------------------------

    def _at(self, time_s: float, kind: int, subject: Any, what: Any) -> None:
        self.world.at(self.clock.world_s(time_s), partial(self._event, time_s, kind, subject, what))

    def _event(self, own_s: float, kind: int, subject: Any, what: Any, _: float) -> None:
        if not self.alive:
            return
        self.now_s = own_s
        if kind == CALL:
            subject(own_s, what)
        elif kind == BATCH_ENDS:
            if what is None and own_s != subject.shared.next_s:
                return
            self._batch_ends(own_s, subject, what)
        elif kind == GATEWAY_WAKES and own_s != self._core_wake_s:
            return
        self._tick_core()

    def _tick_core(self) -> None:
        self._act(
            self.now_s
        )  # as a gateway does: answers leave before a tick that may adopt another schedule
        super()._tick_core()
        self.watching.ticked(self.now_s, self.core)

    def hear(self) -> None:
        """The world's time is the node's."""
        self.now_s = max(self.now_s, self.clock.own_s(self.world.now_s))

    # -- what it hears -------------------------------------------------------------------------------------------------

    def from_robot(self, connection: bytes, message: Any) -> None:
        """A message of a robot has arrived."""
        self.hear()
        session = self.core.sessions.get(connection)
        if type(message) is dict:
            if session is not None:
                model = session.models.get(message["component"], "")
                self.watching.request(
                    self.now_s, (connection, message["request_id"]), model, message["budget_ms"]
                )
            self.core.on_request(self.now_s, connection, message, NO_FRAMES)
        else:
            self.core.on_robot(
                self.now_s, connection, message, proven=True
            )  # between machines robots have keys
        self._tick_core()

    def from_node(self, node: str, message: ToPeer) -> None:
        """A message of another gateway has arrived."""
        self.hear()
        self.node_core.on_peer(self.now_s, node, message)
        if isinstance(message, Forward):
            self._note_guest(node, message)
        self._tick_core()

    def _note_guest(self, node: str, asked: Forward) -> None:
        """The watch hears of a forwarded call that was taken, once."""
        connection = connection_of(node, asked.life, asked.number)
        guest = self.node_core.guests.get(connection)
        if guest is not None and guest.done_s is None and connection not in self._noted:
            self._noted[connection] = None
            model = self._serving.placement.replicas[asked.replica].model
            self.watching.request(self.now_s, (connection, asked.request_id), model, asked.budget_ms)

    def gone(self, connection: bytes) -> None:
        self.hear()
        self.core.on_gone(self.now_s, connection)
        self._tick_core()

    def peer_ended(self, node: str) -> None:
        self.hear()
        self.node_core.peer_ended(self.now_s, node)
        self._tick_core()

    def begin(self) -> None:
        """Its world knows it."""
        self._tick_core()

    def stir(self) -> None:
        """Its core was told something."""
        self._tick_core()

    def forget(self) -> None:
        """What was long ago is of no interest any more."""
        self.watching.forget_answered(self.now_s - FORGETS_AFTER_S)
        while len(self._noted) > MAX_NOTED:
            del self._noted[next(iter(self._noted))]
        while len(self.left_s) > MAX_NOTED:
            del self.left_s[next(iter(self.left_s))]

    def follows(self, plan: FleetPlan) -> None:
        """Another schedule runs next: workers of servers that it lacks end."""
        placement = plan.placement
        gone = [w for w in self._workers.values() if w.replica not in placement.replicas]
        for worker in gone:
            worker.alive = False
            del self._workers[worker.worker_id]
        self._serving.placement = seen_from(placement, self._nodes)

    # -- what it decides -----------------------------------------------------------------------------------------------

    def decided(self, action: Action) -> None:
        """The core has decided this."""
        if isinstance(action, Dispatch) and BORROWED in action.worker_id:
            for call in action.calls:
                self.watching.handed_on((call.connection, call.request_id), ANSWER_GRACE_S)
                self.left_s[action.batch_id] = call.deadline_s - self.now_s
        else:
            self.watching.action(self.now_s, action)
        self.world.acted(self, action)

    def _tell(self, now_s: float, tell: Tell) -> None:
        self.world.to_node(self, tell.node, tell.message)

    def _say(self, now_s: float, connection: bytes, message: ToRobot) -> None:
        self.world.to_robot(self, connection, message)

    # -- workers -------------------------------------------------------------------------------------------------------

    def _start_worker(self, replica: Replica, number: int) -> None:
        place = f"{replica.id}/{number}"
        worker_id = f"{place}.{self._lives.get(place, 0) + 1}"
        self.watching.worker(worker_id, replica.model, replica.at_once or 1, replica.batch or LARGEST_BATCH)
        super()._start_worker(replica, number)

    def _answered(self, worker: SimulatedWorker, batch: Dispatch, service_s: float) -> Executed:
        done = super()._answered(worker, batch, service_s)
        said = [self.world.said(output) for output in done.outputs]
        asked = [(call.robot_id, call.component, call.request_id) for call in batch.calls]
        traced = [
            Traced(
                one.arrays,
                one.verdict,
                one.text,
                node=self.name,
                replica=worker.replica,
                started=worker.epoch,
                asked=whose,
            )
            for one, whose in zip(said, asked, strict=True)
        ]
        return Executed(done.batch_id, done.tickets, done.inference_ms, done.errors, traced, epoch=done.epoch)

    def _executed(self, now_s: float, worker: SimulatedWorker, done: Executed) -> None:
        self.watching.executed(worker.worker_id, done.batch_id)
        outputs = [
            replace(one, epoch=self.node_core.epoch) if isinstance(one, Traced) else one
            for one in done.outputs
        ]
        super()._executed(now_s, worker, replace(done, outputs=outputs))

    def _dispatch(self, now_s: float, batch: Dispatch) -> None:
        worker = self._workers.get(batch.worker_id)
        if worker is not None:
            server = self._replica(worker).server
            slow = [f.amount for f in self.world.active("worker_slow") if self.world.hits_server(f, server)]
            worker.slower = max([1.0, *slow])
        super()._dispatch(now_s, batch)

    def end_workers(self, server: str, notices_s: float) -> None:
        """The workers of a server end; the gateway notices later."""
        self.hear()
        for worker in [w for w in self._workers.values() if self._replica(w).server == server]:
            worker.alive = False
            del self._workers[worker.worker_id]
            self._silenced.add(worker.worker_id)
            self.at(self.now_s + notices_s, partial(self._notice, worker.worker_id))
        self.gpus.pop(server, None)

    def _notice(self, worker_id: str, now_s: float) -> None:
        if worker_id in self._silenced:
            self._silenced.remove(worker_id)
            self.core.on_lost(now_s, worker_id, "ended by the fault plan")

    def warm_all(self) -> None:
        """Start the workers that are not there, unless something keeps them down."""
        here = {worker_id.rpartition(".")[0] for worker_id in self._workers}
        for replica in self._serving.placement.replicas.values():
            down = any(self.world.hits_server(f, replica.server) for f in self.world.active("worker_killed"))
            for number in range(0 if replica.node or down else replica.workers):
                place = f"{replica.id}/{number}"
                if place not in here:
                    for old in [w for w in self._silenced if w.rpartition(".")[0] == place]:
                        self._notice(old, self.now_s)
                    self._start_worker(replica, number)

    def return_workers(self) -> None:
        """Nothing keeps some of them down any more."""
        self.hear()
        self.warm_all()
        self._tick_core()

    def _kill(self, now_s: float, kill: Kill) -> None:
        self._silenced.discard(kill.worker_id)
        worker = self._workers.pop(kill.worker_id, None)
        if worker is not None:
            worker.alive = False
        replica = self._serving.placement.replicas.get(replica_name(kill.worker_id))
        if replica is not None:
            self.gpus.pop(replica.server, None)
        self.at(now_s + STARTS_AGAIN_S, lambda _: self.warm_all())


def clock_of(rng: Random) -> OwnClock:
    """Any clock that a machine may have."""
    return OwnClock(rng.uniform(0.0, 1e5), 1.0 + rng.uniform(-0.001, 0.001))
