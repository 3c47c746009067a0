"""Another schedule for the servers that run, as a rescheduling may bring it: other routes, other queues, a server less.

Random, and not good: the promises have to hold on any placement whose routes lead to servers of the right model. Where
several gateways share the schedule, a person's order for another one at any of them is handed out as `rosa reschedule`
does it: slots that the new one lacks are closed first, streams move, and servers that it lacks end when what they were
given has ended.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from rosa_server.plan.fleet_plan import FleetPlan
from rosa_server.plan.placement import Placement
from rosa_server.serving.core.forwarding.handing_out import HandingOut

if TYPE_CHECKING:
    from rosa_sim.chaos.node import ChaosNode

LOOKS_S = 0.02
MOVES, ALONE, SLOWER, LEAVES = 0.5, 0.3, 0.5, 0.5  # shares: of routes, of servers in pools, of runs, of runs


def another(placement: Placement, rng: Random) -> Placement:
    """A placement with the same slots. Every component stays with servers that answer it."""
    routes = {slot: dict(each) for slot, each in (placement.routes or {}).items()}
    answers: dict[tuple[str, str], set[str]] = {}  # component, model -> replicas
    for each in routes.values():
        for component, name in each.items():
            answers.setdefault((component, placement.replicas[name].model), set()).add(name)
    replicas = {
        name: replace(one, pool="") if one.pool and rng.random() < ALONE else one
        for name, one in placement.replicas.items()
    }
    spared = sorted(
        name
        for name in replicas
        if not replicas[name].standby and all(len(found - {name}) > 0 for found in answers.values())
    )
    if spared and rng.random() < LEAVES:
        gone = rng.choice(spared)
        del replicas[gone]
    for each in routes.values():
        for component, name in each.items():
            if name not in replicas or rng.random() < MOVES:
                model = placement.replicas[name].model
                each[component] = rng.choice(sorted(answers[component, model] & replicas.keys()))
    standbys = {name: some for name, some in placement.standbys.items() if name in replicas}
    rates = placement.rates_hz
    if rng.random() < SLOWER:
        rates = {task: {name: hz * 0.7 for name, hz in each.items()} for task, each in rates.items()}
    return replace(placement, replicas=replicas, routes=routes, standbys=standbys, rates_hz=rates)


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
