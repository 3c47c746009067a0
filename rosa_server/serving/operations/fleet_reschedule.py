"""`reschedule` where several gateways share the schedule: the one to which it was ordered hands out stage by stage.

All gateways leave the schedule to it first (`core/forwarding/succession.py`); then the way is planned, from what runs
and the slots that robots have anywhere. Each stage is a schedule in which every robot is served, and begins when all
run the one before it and what that starts is warm. Where one of them cannot go on, or a person cancels it, it ends
between two stages, without what did not get warm. It ends where this gateway does, too, and a gateway that was away
follows when it is back. No stream moves to a replica that is not warm, whichever order has started that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from rosa_contract.wire.watching import Order
from rosa_server.plan.change import Change, Stage
from rosa_server.plan.fleet_plan import FleetPlan
from rosa_server.plan.nodes import NoRoom, homes, housed
from rosa_server.serving.core.forwarding.handing_out import HandingOut
from rosa_server.serving.core.forwarding.node import NodeCore
from rosa_server.serving.operations.operation import End, Operation
from rosa_server.serving.operations.order import OperationError, Site
from rosa_server.serving.operations.reschedule import WARMS_S, PlanningThread, planning_failed

Routes = Mapping[str, Mapping[str, str]]  # slot -> component -> replica
CLOSES = "slots that the new schedule lacks are given to nobody any more"


@dataclass(frozen=True)
class FleetStage:
    """What is handed out next, and what has to be before."""

    words: str
    plan: FleetPlan
    starts: tuple[str, ...] = ()  # replicas that have to be warm before the next one
    stops: bool = False  # servers end with it: what they were given has to have ended
    moves: bool = False  # streams move
    targets: tuple[str, ...] = ()  # to these replicas, which have to be warm before it
    free: tuple[str, ...] = ()  # slots that no robot may have


class FleetReschedule(Operation):
    """While it is at work no other operation is, at any gateway."""

    exclusive = True

    def __init__(self, site: Site, node: NodeCore, order: Order, now_s: float, dry_run: bool) -> None:
        """Raises `OperationError`."""
        if site.planner is None:
            raise OperationError("no_slots", "this gateway cannot plan: it has no schedule of its own")
        if site.state.drained:
            words = f"{', '.join(sorted(site.state.drained))} is drained; `rosa undrain` gives it back first"
            raise OperationError("busy", words)
        super().__init__(site, order, site.names(), now_s)
        self._node, self._planner, self._dry_run = node, site.planner, dry_run
        self._handing = None if dry_run else HandingOut(node, now_s)
        if self._handing is not None and not self._handing.begun:
            words = f"the gateway of node {node.succession.node} changes the schedule"
            raise OperationError("busy", words)
        self._before = node.succession.plan
        self._planning: PlanningThread | None = None
        self._stages: list[FleetStage] = []
        self._words = ""
        self._at = -1  # the stage that was handed out last
        self._at_s = now_s
        self._moved = False
        self._waits: Mapping[str, str] = {}

    @property
    def doing(self) -> str:
        if self._waits:
            return "; ".join(f"node {name} {why}" for name, why in self._waits.items())
        if not self._stages:
            return "the way is being planned"
        return f"stage {self._at + 1} of {len(self._stages)}: {self._stages[max(0, self._at)].words}"

    def cancel(self, now_s: float) -> None:
        """At the end of the stage that is at work, or at once while that waits for something."""
        self.cancelled = True

    def let_go(self, now_s: float) -> None:
        """See `Operation`: other gateways wait for it."""
        if self._handing is not None:
            self._handing.end(now_s)

    def step(self, now_s: float, gone: Mapping[str, str]) -> End | None:
        handing = self._handing
        if handing is not None:
            self._waits = handing.waits(now_s)
            if self._waits and handing.gives_up(now_s):
                cause = "node_away" if any("not there" in why for why in self._waits.values()) else "busy"
                return self._back(now_s, cause, self.doing)
            if self._waits and not self.cancelled:
                return None
        if self._planning is None:
            if self.cancelled:
                return self._back(now_s, "cancelled", "it was cancelled")
            self._before = self._node.succession.plan
            taken = self._node.slots.taken()
            self._planning = PlanningThread(
                self._planner.prepare(self._before.placement, taken), self.order.value
            )
        if not self._stages:
            return self._look_at_plan(now_s, self._planning)
        assert handing is not None
        if self.cancelled:
            return self._back(now_s, "cancelled", self.why or "it was cancelled")
        for one, needs in self._needs():
            if not handing.warm(needs):
                late = now_s > self._at_s + WARMS_S
                return self._back(now_s, "not_warm", f"{one.words}: not warm in time") if late else None
        if self._at + 1 == len(self._stages):
            self._say(now_s, "reached", f"{self._place} done: {self._stages[self._at].words}")
            handing.end(now_s)
            return End("", self._words)
        following = self._stages[self._at + 1]
        if following.stops and not handing.settled(now_s):
            return None
        if lost := handing.has_robots(following.free):
            return self._back(now_s, "robots_left_over", f"a robot has come meanwhile that has {lost[0]}")
        if self._at >= 0:
            self._say(now_s, "reached", f"{self._place} done: {self._stages[self._at].words}")
        self._moved |= following.moves
        self._at, self._at_s = self._at + 1, now_s
        handing.hand_out(following.plan)
        return None

    def _needs(self) -> Iterator[tuple[FleetStage, tuple[str, ...]]]:
        """What has to be warm before the next stage, and for which one."""
        if self._at >= 0:
            yield self._stages[self._at], self._stages[self._at].starts
        if self._at + 1 < len(self._stages):
            yield self._stages[self._at + 1], self._stages[self._at + 1].targets

    @property
    def _place(self) -> str:
        return f"{self._at + 1} of {len(self._stages)}"

    def _say(self, now_s: float, step: str, words: str) -> None:
        self.site.say(self.order, step, words, stage=self._place, epoch=self._node.epoch)

    def _look_at_plan(self, now_s: float, planning: PlanningThread) -> End | None:
        if not planning.done:
            return None
        if planning.change is None:
            return self._ended(now_s, planning_failed(planning.error))
        try:
            self._stages = self._stages_of(planning.change)
        except NoRoom as error:
            return self._ended(now_s, End("too_few_gpus", str(error)))
        self._words = planning.change.words
        for number, stage in enumerate(self._stages, start=1):
            self.site.say(self.order, "planned", f"{number}. {stage.words}")
        if self._dry_run:
            return End("", f"this would follow: {self._words}")
        return None

    def _stages_of(self, change: Change) -> list[FleetStage]:
        """Raises `NoRoom`."""
        before, node = self._before, self._node
        room = {name: peer.beat.room if peer.beat is not None else 0 for name, peer in node.peers.items()}
        room[node.nodes.here] = node.room
        at = housed(change.stages, before.server_on, room)
        first = (change.stages[0].placement.routes or {}).keys()
        closed = tuple(sorted((before.placement.routes or {}).keys() - first))
        made = []
        if closed:
            made.append(FleetStage(CLOSES, replace(before, closed=closed)))
        routes = before.placement.routes or {}
        for number, (stage, server_on) in enumerate(zip(change.stages, at, strict=True)):
            own = self._plan_of(stage, server_on)
            words, free = self._named(stage, server_on), closed if number == 0 else ()
            targets = _moved_to(routes, stage.placement.routes or {})
            made.append(FleetStage(words, own, stage.starts, bool(stage.stops), stage.moves, targets, free))
            routes = stage.placement.routes or {}
        return made

    def _plan_of(self, stage: Stage, server_on: Mapping[str, str]) -> FleetPlan:
        names = sorted(self._node.nodes.gateways)
        home = {**homes(stage.placement, server_on, names), **self._before.home}
        about = (self._planner.written(stage), self.order.value)
        return FleetPlan(stage.placement, server_on, home, (), *about)

    def _named(self, stage: Stage, server_on: Mapping[str, str]) -> str:
        """Its words, and on which node what is."""
        servers = dict.fromkeys(stage.placement.replicas[name].server for name in stage.starts)
        on = ", ".join(f"{server} on node {server_on[server]}" for server in servers)
        return f"{stage.words} ({on})" if on else stage.words

    def _back(self, now_s: float, cause: str, why: str) -> End:
        """All stay where they are, without what did not get warm; where no stream has moved, all go back to where it
        began."""
        if self._at < 0:
            return self._ended(now_s, End(cause, f"{why}; nothing has changed"))
        assert self._handing is not None
        if not self._moved:
            self._handing.hand_out(self._before)
            return self._ended(now_s, End(cause, f"{why}; everything is as it was before"))
        if not self._handing.warm(self._stages[self._at].starts):
            self._at -= 1  # as streams have moved there is one, and they run as in that
            self._handing.hand_out(self._stages[self._at].plan)
        done = f"{self._place} stages are handed out"
        words = f"{why}; {done}, and every stream is served: order it again, or a schedule to go back to"
        return self._ended(now_s, End(cause, words))

    def _ended(self, now_s: float, end: End) -> End:
        if self._handing is not None:
            self._handing.end(now_s)
        return end


def _moved_to(had: Routes, has: Routes) -> tuple[str, ...]:
    """The replicas to which streams of slots that were there before move."""
    both = ((had[slot], routes) for slot, routes in has.items() if slot in had)
    moved = {one for old, new in both for component, one in new.items() if old.get(component) != one}
    return tuple(sorted(moved))
