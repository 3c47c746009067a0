"""The serving core of one of several gateways of a schedule. Pure.

A replica of another node is served by a *borrowed* worker: as far as this core knows, one that runs many calls at a
time and answers each by itself. It is ready while the node's gateway is there and has a warm worker, and lost when that
falls silent; so queues, credits, failover to a standby, cancelling and "answered once" are those of any worker. What a
borrowed worker is given goes to the other gateway with what is left of its budget, and waits there in the queue of the
replica, as a *guest*, beside the calls of that gateway's own robots.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import inf
from typing import Protocol

from rosa_contract.config.factory import Factory
from rosa_contract.wire import messages as m
from rosa_contract.wire.bounds import MAX_TEXT_CHARS
from rosa_server.plan.admission import AdmissionControl, NoAdmission
from rosa_server.plan.fleet_plan import FleetPlan
from rosa_server.plan.nodes import AT_ONCE, NodePlan, seen_from
from rosa_server.plan.peering import Beat, Forward, ForwardCancel, Forwarded, PeerPlan, ToPeer
from rosa_server.plan.placement import Placement
from rosa_server.serving.core.dispatch.core import ServingCore
from rosa_server.serving.core.forwarding.away import AwayCall, AwayCalls
from rosa_server.serving.core.forwarding.guests import Guest, Guests, connection_of
from rosa_server.serving.core.forwarding.peer import (
    ABSENT,
    BEAT_EVERY_S,
    ENDS,
    FALLS_SILENT,
    HERE,
    PeerGateway,
)
from rosa_server.serving.core.forwarding.succession import KeepsPlan, Succession
from rosa_server.serving.core.queueing.actions import Action, Cancel, Dispatch, Kill, Note, Reply, Say, Tell
from rosa_server.serving.core.sessions.homes import Grant, HomeSlots, KeepsGrants, SlotTokens
from rosa_server.serving.core.sessions.router import Failover
from rosa_server.serving.core.workers.epochs import OLD_EPOCH

NO_MORE = "a schedule of several gateways has the planned robots only"
ANSWER_GRACE_S = 0.25  # after its budget a forwarded call is answered here, whatever its node does
SWEEP_EVERY_S = 1.0
WRITES_S = 0.002  # between two looks whether a slot is written down
WORKS_S = 1.0  # a robot that has called within this time works here
BORROWED = "/@"  # in the name of such a worker, between its replica and its node


class KeepsAll(KeepsGrants, KeepsPlan, Protocol):
    """Writes down what a gateway must know when it is started again."""


class NodeCore(ServingCore):
    """Everything that one gateway of several decides. `Tell` actions are for the other ones."""

    def __init__(
        self,
        factory: Factory,
        placement: Placement,
        nodes: NodePlan,
        life: str,
        tokens: SlotTokens,
        kept: Mapping[str, Grant],
        keeper: KeepsAll,
        passing: tuple[str, ...] = (),
        plan: FleetPlan | None = None,
    ) -> None:
        """`life`: of this process, another one after each start. `kept`, `keeper`, `passing`: see `HomeSlots`. `plan`:
        of this process's life before, which is gone on with instead of `placement`."""
        plan = plan or FleetPlan(placement, nodes.server_on, nodes.home)
        placement, nodes = plan.placement, replace(nodes, server_on=plan.server_on, home=plan.home)
        self.nodes, self.life = nodes, life
        self.succession = Succession(life, plan, keeper)

        def slots(placement: Placement, admission: AdmissionControl, failover: Failover) -> HomeSlots:
            about = (nodes.home, nodes.here, nodes.gateways, tokens, kept, keeper, passing)
            self.slots = HomeSlots(placement, admission, failover, *about, plan.closed)
            return self.slots

        super().__init__(factory, seen_from(placement, nodes), NoAdmission(NO_MORE), make_slots=slots)
        self.sessions.gateways = tuple(nodes.gateways[name] for name in (nodes.here, *nodes.others))
        self.peers = {name: PeerGateway(name) for name in nodes.others}
        self._borrowed: dict[str, str] = {}  # worker -> its node
        self._borrowed_of: dict[str, str] = {}  # replica -> borrowed worker
        self._times_borrowed = 0
        self._away = AwayCalls()
        self.room = 0  # further servers that this node has GPUs for
        self.guests = Guests()
        self._ready: dict[str, m.WorkerReady] = {}  # of own workers
        self._beat_s = self._guests_s = 0.0
        self._ticked_s = inf
        self._writes = False  # what runs is not written down yet
        self._welcomes: dict[bytes, Say] = {}  # of robots whose slots are not written down yet

    @property
    def epoch(self) -> int:
        return self.router.placement.epoch

    @property
    def longest_s(self) -> float:
        """After so long what a worker was given is answered, or late."""
        tasks = self._factory.tasks.values()
        slos_ms = (one.slo_ms for task in tasks for one in task.components.values())
        return max(slos_ms) / 1000 + ANSWER_GRACE_S

    # -- what the others say -------------------------------------------------------------------------------------------

    def on_peer(self, now_s: float, node: str, message: ToPeer) -> None:
        """Another gateway says something; the shell knows for certain that it is this one. Raises `KeyError` for a node
        that the schedule does not have."""
        peer = self.peers[node]
        if isinstance(message, Beat):
            self._hear(now_s, peer, message)
        elif isinstance(message, Forward):
            self._take_in(now_s, node, message)
        elif isinstance(message, Forwarded):
            self._answered(now_s, node, message)
        elif isinstance(message, PeerPlan):
            if message.plan.epoch > self.epoch:
                self.run(now_s, message.plan)
        else:
            for number in message.numbers:
                guest = self.guests.get(connection_of(node, message.life, number))
                if guest is not None:
                    self._dispatcher.cancel(now_s, guest.connection, guest.asked.request_id)

    def peer_quiet(self, now_s: float, node: str) -> None:
        """Not a byte of another gateway has come for a while, though the connection holds. Its workers are passed over
        where others could run their calls; elsewhere a pause of a fifth of a second would become lost calls."""
        quiet = {worker_id.rpartition("/")[0]: worker_id for worker_id in self._borrowed_at(node)}
        for replica, worker_id in quiet.items():
            if self.router.failover.covered(replica, quiet):  # with each one a standby has its hands full
                self._do(Note("peer_silent", {"node": node, "replica": replica}))
                self.on_lost(now_s, worker_id, f"nothing is heard of {node}")

    def peer_ended(self, now_s: float, node: str) -> None:
        """The connection to another gateway has ended."""
        if self.peers[node].happens(ENDS):
            self._lose(now_s, node, "its connection ended")

    def _hear(self, now_s: float, peer: PeerGateway, beat: Beat) -> None:
        was = peer.state
        counts, lost = peer.hears(now_s, beat)
        if lost:
            self._lose(now_s, peer.node, "it was started again")
        if not counts:
            return
        said = self.succession.says()
        self.succession.hears(peer.node, beat.life, beat.change)
        if self.succession.says() != said:
            self._beat_s = now_s
        self._tell_plan(now_s, peer)
        self.slots.hears(peer.node, beat.grants)
        for slot, grant in beat.returned.items():
            if not self._works_with(grant[1], slot):
                self.slots.give_back(slot, grant)
        if was != HERE or lost:
            self._do(Note("peer_here", {"node": peer.node, "epoch": beat.epoch}))
        self._borrow(now_s, peer.node, beat)

    def _works_with(self, robot: str, slot: str) -> bool:
        session = self.sessions.of_robot(robot)
        return session is not None and session.slot == slot

    def _works_with_another(self, now_s: float, robot: str, slot: str) -> bool:
        """Whether a robot has just called with another slot, of the same task or not: it has the proof of that one."""
        session = self.sessions.of_robot(robot)
        if session is None or session.gone or not session.newest or now_s > session.heard_s + WORKS_S:
            return False
        return session.slot != slot

    def _spare_slots(self, now_s: float) -> None:
        """Some gateway, this one or another, has given a slot to robots that work here with another one."""
        for slot, grant in [*self.slots.told.items(), *self.slots.grants.items()]:
            if self._works_with_another(now_s, grant[1], slot):
                self.slots.spare(slot, grant)
        self.slots.settle()

    def _borrow(self, now_s: float, node: str, beat: Beat) -> None:
        """Its replicas have warm workers, or have none any more. A node of an older schedule has those of replicas that
        are as they were in that; one of a newer schedule says of each call whether it has its worker."""
        warm = {self._replica_of(ready): ready for ready in beat.warm}
        warm = {name: one for name, one in warm.items() if self.epoch_of(name) <= beat.epoch}
        for worker_id in self._borrowed_at(node):
            if worker_id.rpartition("/")[0] not in warm:
                self.on_lost(now_s, worker_id, f"{node} has no warm worker of it")
        for replica, ready in warm.items():
            if replica not in self._borrowed_of and self._is_at(replica, node):
                self._times_borrowed += 1
                worker_id = f"{replica}{BORROWED}{node}.{self._times_borrowed}"
                self._borrowed[worker_id], self._borrowed_of[replica] = node, worker_id
                one = replace(ready, worker_id=worker_id, max_batch=1, at_once=AT_ONCE, epoch=beat.epoch)
                super().on_ready(now_s, one)

    def _borrowed_at(self, node: str) -> list[str]:
        return [worker_id for worker_id, of in self._borrowed.items() if of == node]

    def _replica_of(self, ready: m.WorkerReady) -> str:
        return self.router.placement.replica_of(ready.worker_id, ready.model) or ""

    def _is_at(self, replica: str, node: str) -> bool:
        placed = self.router.placement.replicas.get(replica)
        return placed is not None and placed.node == node

    def _lose(self, now_s: float, node: str, why: str) -> None:
        """A gateway that was there is no more: its workers are lost, and nobody waits for what it has asked."""
        self._do(Note("peer_lost", {"node": node, "reason": why}))
        self.succession.lost(node)
        for worker_id in self._borrowed_at(node):
            self.on_lost(now_s, worker_id, f"{node}: {why}")
        for guest in self.guests.open(node):
            self._dispatcher.leave(now_s, guest.connection, f"its gateway {node} is gone: {why}")

    # -- calls that others forward -------------------------------------------------------------------------------------

    def _take_in(self, now_s: float, node: str, asked: Forward) -> None:
        """Run a call for another gateway, or say at once why not."""
        if asked.to_life != self.life:  # that one may have run it, and its asker knows that it is gone
            self._do(Note("old_life", {"node": node, "number": asked.number}))
            return
        guest = Guest(node, asked, self.epoch)
        if not self.guests.takes(guest):
            return  # delivered twice
        own = self.router.placement.replicas.get(asked.replica)
        why = ""
        if asked.epoch < (since := self.epoch_of(asked.replica)):
            why = OLD_EPOCH
            self._do(Note(why, {"node": node, "what": "forward", "epoch": asked.epoch, "expected": since}))
        elif own is None or own.node or not self.pool.serves(asked.replica) or self._dispatcher.draining:
            why = "not_warm"
        elif self._model_of(asked) != own.model:
            why = "unknown_call"
        if why or own is None:
            guest.ends(now_s)
            self._do(Tell(node, self._answer(guest, not_taken=why)))
            return
        queue = self.router.failover.feeds_from(asked.replica)
        call = self.ledger.open(
            guest.connection,
            asked.robot_id,
            asked.component,
            own.model,
            asked.request_id,
            now_s,
            asked.budget_ms,
            asked.frames,
            queue,
        )
        call.slo_s = self._factory.tasks[asked.task].components[asked.component].slo_ms / 1000
        call.network_s, call.over_rate = asked.network_ms / 1000, asked.over_rate
        call.observation = asked.observation
        call.rank_s = self._dispatcher.lanes[queue].rates.rank_s(call, None)
        self._dispatcher.arrive(now_s, call, asked.task)

    def _model_of(self, asked: Forward) -> str:
        """What runs this component of this task; empty: it has none, so that no gateway of the schedule asks for it."""
        task = self._factory.tasks.get(asked.task)
        component = task.components.get(asked.component) if task is not None else None
        return component.model if component is not None else ""

    def _answer(self, guest: Guest, reply: Reply | None = None, not_taken: str = "") -> Forwarded:
        asked = guest.asked
        names = (asked.number, asked.life, guest.epoch, asked.session, asked.request_id)
        if reply is None:
            return Forwarded(*names, not_taken)
        ran = (reply.inference_ms, reply.batch_size, reply.output)
        return Forwarded(*names, "", reply.cause, reply.reason[:MAX_TEXT_CHARS], *ran)

    # -- calls that are forwarded --------------------------------------------------------------------------------------

    def _forward(self, node: str, given: Dispatch) -> Forward:
        (call,) = given.calls
        session = self.sessions.get(call.connection)
        guest = self.guests.get(call.connection)
        number = session.number if session is not None else 0
        task = session.task if session is not None else guest.asked.task if guest is not None else ""
        ends_s = call.deadline_s + ANSWER_GRACE_S
        about = call.observation  # of a guest it has its name already
        if about and guest is None:
            about = f"{self.nodes.here}/{self.life}/{about}"
        about_it = (given.worker_id, node, call.ticket, number, call.request_id, ends_s)
        self._away.add(AwayCall(given.batch_id, *about_it))
        return Forward(
            given.batch_id,
            self.life,
            self.epoch,
            number,
            call.request_id,
            call.robot_id,
            call.component,
            task,
            given.worker_id.rpartition("/")[0],
            max(0.0, call.deadline_s - call.dispatched_s) * 1000,
            (call.network_s + self.peers[node].rtt_s) * 1000,
            call.over_rate,
            about,
            call.frames,
            self.peers[node].life,
        )

    def _answered(self, now_s: float, node: str, answer: Forwarded) -> None:
        """The answer to a forwarded call. One that nobody waits for, or that is for another call, does not count."""
        away = self._away.get(answer.number)
        if (
            away is None
            or answer.life != self.life
            or (away.node, away.session, away.request_id) != (node, answer.session, answer.request_id)
        ):
            self._do(Note("late_forward", {"node": node, "number": answer.number}))
            return
        if answer.not_taken:
            self.on_lost(now_s, away.worker_id, f"{node}: {answer.not_taken}")
            return
        worker = self.pool.get(away.worker_id)
        if worker is not None and answer.epoch >= worker.epoch:
            self._away.ended(answer.number)
            self.pool.ran_as(worker, answer.number, answer.batch_size)
        super().on_executed(
            now_s,
            away.worker_id,
            m.Executed(
                answer.number,
                [away.ticket],
                answer.inference_ms,
                [(answer.cause, answer.reason)],
                [answer.output],
                epoch=answer.epoch,
            ),
        )

    def _give_up_late(self, now_s: float) -> None:
        """What has no answer although its budget is spent is answered here: its message, or the answer, is lost."""
        for away in self._away.late(now_s):
            worker = self.pool.get(away.worker_id)
            if worker is not None:
                error = "no_worker", f"node {away.node} did not answer within its budget"
                done = m.Executed(away.number, [away.ticket], 0.0, [error], [b""], epoch=worker.epoch)
                super().on_executed(now_s, away.worker_id, done)

    # -- this gateway --------------------------------------------------------------------------------------------------

    def on_ready(self, now_s: float, ready: m.WorkerReady) -> None:
        """See `ServingCore`; the other gateways hear of it with the next beat."""
        self._ready[ready.worker_id] = ready
        super().on_ready(now_s, ready)
        self._beat_s = now_s

    def on_lost(self, now_s: float, worker_id: str, why: str) -> None:
        """See `ServingCore`; of a borrowed worker, too."""
        if self._ready.pop(worker_id, None) is not None:
            self._beat_s = now_s
        if self._borrowed.pop(worker_id, None) is not None:
            del self._borrowed_of[worker_id.rpartition("/")[0]]
            self._away.lost(worker_id)
        super().on_lost(now_s, worker_id, why)

    def adopt(
        self,
        now_s: float,
        placement: Placement,
        admission: AdmissionControl,
        planned: Mapping[str, int] | None = None,
    ) -> None:
        """See `ServingCore`: `placement` is whole, on the servers that there are, and admits nobody."""
        plan = replace(self.succession.plan, placement=placement)
        self.run(now_s, plan if plan.epoch > self.epoch else plan.follows(self.succession.plan))

    def run(self, now_s: float, plan: FleetPlan) -> None:
        """Another schedule from now on, with a higher epoch. Who works with a slot that it lacks has no slot: nobody
        has been given one for as long as such a schedule is handed out."""
        self.nodes = replace(self.nodes, server_on=plan.server_on, home=plan.home)
        self.slots.plan(plan.home, plan.closed)
        routes = plan.placement.routes or {}
        leaving = [session for session in self.sessions if session.slot not in routes]
        self._forget(now_s, leaving, "its slot is not in the schedule any more")
        super().adopt(now_s, seen_from(plan.placement, self.nodes), NoAdmission(NO_MORE))
        for guest in self.guests.open():  # their queues may be others
            for call in self.ledger.of(guest.connection):
                if guest.asked.replica in plan.placement.replicas:
                    call.queue = self.router.failover.feeds_from(guest.asked.replica)
        self._dispatcher.requeue(now_s)
        self.succession.runs(plan)
        self._writes, self._beat_s = True, now_s

    def _tell_plan(self, now_s: float, peer: PeerGateway) -> None:
        if peer.state == HERE and self.succession.to_tell(now_s, peer.node, peer.epoch):
            self._do(Tell(peer.node, PeerPlan(self.succession.plan)))

    def beat(self, now_s: float) -> None:
        """The others hear at the next tick how this gateway is, and not only when it is time for it."""
        self._beat_s = now_s

    def remove(self, now_s: float, robot_id: str, words: str) -> None:
        """See `ServingCore`; the slots that the robot has anywhere are free as soon as their homes hear of it."""
        super().remove(now_s, robot_id, words)
        self.slots.take_from(robot_id)

    def tick(self, now_s: float) -> float:
        """See `ServingCore`."""
        paused_s, self._ticked_s = now_s - self._ticked_s - BEAT_EVERY_S, now_s
        for peer in self.peers.values():
            if paused_s > 0:
                peer.we_paused(paused_s)
            if peer.state != ABSENT and now_s >= peer.silent_at_s() and peer.happens(FALLS_SILENT):
                self._lose(now_s, peer.node, "it is silent")
        self._give_up_late(now_s)
        self._say_welcomes(now_s)
        following = self.succession.prepared()
        if following is not None:
            self.run(now_s, following)
        if self._writes and self.succession.written():
            self._writes, self._beat_s = False, now_s
            for peer in self.peers.values():
                self._tell_plan(now_s, peer)
        next_s = super().tick(now_s)
        if self._welcomes or not self.succession.settled:
            next_s = min(next_s, now_s + WRITES_S)
        if now_s >= self._beat_s:
            self._beat_s = now_s + BEAT_EVERY_S
            self._beat(now_s)
        if now_s >= self._guests_s:
            self._guests_s = now_s + SWEEP_EVERY_S
            self.guests.sweep(now_s)
            self._spare_slots(now_s)
        silent_s = min((p.silent_at_s() for p in self.peers.values() if p.state != ABSENT), default=inf)
        return min(next_s, self._beat_s, silent_s, self._away.next_s())

    def _beat(self, now_s: float) -> None:
        warm: Mapping[str, m.WorkerReady] = {}
        if not self._dispatcher.draining:
            known = ((one.replica, self._ready.get(one.worker_id)) for one in self.pool if not one.apart)
            warm = {replica: ready for replica, ready in known if ready is not None}
        change = self.succession.says()
        for peer in self.peers.values():
            news = self.slots.since(peer.knows)
            said = peer.says(now_s, self.slots.version)
            about = (list(warm.values()), news, self.slots.returned)
            beat = Beat(self.nodes.here, self.life, self.epoch, *said, *about, change, self.room)
            self._do(Tell(peer.node, beat))

    def _say_welcomes(self, now_s: float) -> None:
        """To robots whose slots are written down meanwhile; where that failed, nobody has the slot."""
        for connection, say in list(self._welcomes.items()):
            session = self.sessions.get(connection)
            written = self.slots.written(session.slot) if session is not None else False
            if written is None:
                continue
            del self._welcomes[connection]
            if written:
                self._do(say)
            elif session is not None:
                slot = session.slot
                self.expel(now_s, connection, "its slot cannot be written down")
                self._do(Say(connection, self.slots.unwritten(slot)))

    def _waits(self, action: Action) -> bool:
        """A robot hears of its slot when that is written down."""
        if not isinstance(action, Say) or not isinstance(action.message, m.Welcome):
            return False
        session = self.sessions.get(action.connection)
        if session is None or self.slots.written(session.slot):
            return False
        self._welcomes[action.connection] = action
        return True

    def actions(self) -> list[Action]:
        """See `ServingCore`. What borrowed workers are given and told, and answers to guests, go to other gateways."""
        return [
            self._outward(action)
            for action in super().actions()
            if not self._is_inward(action) and not self._waits(action)
        ]

    def _is_inward(self, action: Action) -> bool:
        """What is for a borrowed worker that counts as lost goes nowhere: its calls went elsewhere with that."""
        if not isinstance(action, Kill | Dispatch | Cancel) or BORROWED not in action.worker_id:
            return False
        return isinstance(action, Kill) or action.worker_id not in self._borrowed

    def _outward(self, action: Action) -> Action:
        if isinstance(action, Dispatch) and (node := self._borrowed.get(action.worker_id)):
            return Tell(node, self._forward(node, action))
        if isinstance(action, Cancel) and (node := self._borrowed.get(action.worker_id)):
            return Tell(node, ForwardCancel(self.life, self._away.of(action.tickets)))
        if isinstance(action, Reply) and (guest := self.guests.get(action.call.connection)):
            guest.ends(action.ended_s)
            self._dispatcher.ranking.forget(guest.connection)
            return Tell(guest.node, self._answer(guest, action))
        return action
