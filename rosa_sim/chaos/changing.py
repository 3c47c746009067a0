"""A person's order for another schedule, at one of several gateways of the chaos, handed out as production does it.

As `rosa reschedule` does it: slots that the new schedule lacks are closed first, streams move, and servers that it
lacks end when what they were given has ended.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from rosa_server.plan.fleet_plan import FleetPlan
from rosa_server.plan.placement import Placement
from rosa_server.serving.core.forwarding.handing_out import HandingOut
from rosa_sim.chaos.node import ChaosNode
from rosa_sim.chaos.rescheduling import another

LOOKS_S = 0.02


class ChangeOrder:
    """One order. `first`: the schedule that the fleet began with; `spare`: slots that may go, as no robot needs one."""

    def __init__(self, node: ChaosNode, first: FleetPlan, spare: int, rng: Random) -> None:
        node.hear()
        self._node, self._first, self._spare, self._rng = node, first, spare, rng
        self._handing = HandingOut(node.node_core, node.now_s)
        self._plans: list[FleetPlan] | None = None
        self._before = first
        self._closed: tuple[str, ...] = ()
        self._back = rng.random() < 0.3  # it is cancelled on the way
        self.ended = ""
        if self._handing.begun:
            self._again()
        else:
            self.ended = "busy"

    def _again(self) -> None:
        world = self._node.world
        world.at(world.now_s + LOOKS_S, self._step)

    def _step(self, _: float) -> None:
        if not self._node.alive:
            self.ended = "lost"
            return
        self._node.hear()
        now_s = self._node.now_s
        self.ended = self._goes_on(now_s)
        if self.ended:
            self._handing.end(now_s)
        else:
            self._again()
        self._node.stir()

    def _goes_on(self, now_s: float) -> str:
        if self._handing.waits(now_s):
            return "given up" if self._handing.gives_up(now_s) else ""
        if self._plans is None:
            self._before, self._plans = self._handing.plan, self._planned()
        if not self._plans:
            return "done"
        following = self._plans[0]
        fewer = following.placement.replicas.keys() != self._handing.plan.placement.replicas.keys()
        if fewer and not self._handing.settled(now_s):
            return ""
        missing = set(self._handing.plan.placement.routes or ()) - set(following.placement.routes or ())
        if self._handing.has_robots(missing) or (self._back and len(self._plans) == 1):
            moved = self._handing.plan.placement.routes != self._before.placement.routes
            if not moved:
                self._handing.hand_out(self._before)
            return "back"
        del self._plans[0]
        self._handing.hand_out(following)
        return ""

    def _planned(self) -> list[FleetPlan]:
        before = self._before
        placement = (
            another(self._first.placement, self._rng) if self._rng.random() < 0.7 else self._first.placement
        )
        had = before.placement.routes or {}
        free = sorted((had.keys() & (placement.routes or {}).keys()) - self._node.node_core.slots.taken())
        count = len(placement.routes or {}) - self._spare
        self._rng.shuffle(free)
        gone = tuple(free[: self._rng.randint(0, max(0, min(len(free), len(had) - count)))])
        placement = _without(placement, gone)
        # Slots that were away come back at the end, and no robot is asked to do without one that it has.
        closed = tuple(sorted(had.keys() - (placement.routes or {}).keys()))
        plans = [replace(before, closed=closed)] if closed else []
        both = {**before.placement.replicas, **placement.replicas}
        moved = {slot: each for slot, each in (placement.routes or {}).items() if slot in had}
        plans.append(replace(before, closed=(), placement=replace(placement, replicas=both, routes=moved)))
        return [*plans, replace(before, closed=(), placement=placement)]


def _without(placement: Placement, slots: tuple[str, ...]) -> Placement:
    routes = {slot: each for slot, each in (placement.routes or {}).items() if slot not in slots}
    return replace(placement, routes=routes)


def order(node: ChaosNode, first: FleetPlan, spare: int, seed: float) -> ChangeOrder:
    """Another schedule is ordered at this node."""
    return ChangeOrder(node, first, spare, Random(f"change {seed}"))
