"""One change of the schedule that several gateways share, at the gateway to which it was ordered. Pure.

It begins when all others leave the schedule to it, and goes from one schedule to the next when all of them run the last
one. Slots that the new schedule lacks are closed first: from then on no gateway gives them out, and whether a robot has
one is known. Whoever was given calls for a server before streams moved has answered them, or they are late, when that
ends: the longest SLO has passed by then.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import inf

from rosa_server.plan.fleet_plan import FleetPlan
from rosa_server.serving.core.forwarding.node import NodeCore
from rosa_server.serving.core.forwarding.peer import HERE

AGREES_S = 5.0  # until all leave the schedule to it
AWAY_S = 30.0  # so long it waits for a gateway that is gone, which is started again meanwhile


class HandingOut:
    """Raises nothing. It has to be ended."""

    def __init__(self, core: NodeCore, now_s: float) -> None:
        self._core = core
        self._together_s = now_s  # the last time that all were there, and ran the same
        self._same_s = inf  # since when all run what was handed out last
        self.begun = core.succession.begins()  # false: another gateway changes the schedule
        self.agreed = False
        core.beat(now_s)

    def end(self, now_s: float) -> None:
        """The schedule stays as it is."""
        if self.begun:
            self._core.succession.ends()
            self._core.beat(now_s)

    @property
    def plan(self) -> FleetPlan:
        """What runs now."""
        return self._core.succession.plan

    def lacking(self) -> dict[str, str]:
        """The gateways that are not there, do not leave the schedule to this change, or run another one; and which."""
        found = {}
        for name, peer in self._core.peers.items():
            beat = peer.beat
            if peer.state != HERE or beat is None:
                found[name] = "is not there"
            elif not self._core.succession.has_word(beat.change):
                found[name] = "works on servers itself, or leaves the schedule to another gateway"
            elif beat.epoch != self._core.epoch:
                found[name] = f"runs schedule {beat.epoch}, this is {self._core.epoch}"
        return found

    def waits(self, now_s: float) -> dict[str, str]:
        """For whom it waits now, and why; for nobody: it may go on."""
        found = self.lacking()
        if not self._core.succession.settled:
            found[self._core.nodes.here] = "writes the schedule down"
        if found:
            self._same_s = inf
        else:
            self.agreed, self._together_s = True, now_s
            self._same_s = min(self._same_s, now_s)
        return found

    def gives_up(self, now_s: float) -> bool:
        """Whether it has waited too long."""
        return now_s > self._together_s + (AWAY_S if self.agreed else AGREES_S)

    def settled(self, now_s: float) -> bool:
        """Whether what servers were given before the last schedule has ended."""
        return now_s >= self._same_s + self._core.longest_s

    def warm(self, replicas: Iterable[str]) -> bool:
        """Whether each of these has a warm worker, on whatever node."""
        return all(self._core.pool.serves(replica) for replica in replicas)

    def has_robots(self, slots: Iterable[str]) -> list[str]:
        """Those of these slots that robots have."""
        return sorted(self._core.slots.taken() & set(slots))

    def hand_out(self, plan: FleetPlan) -> None:
        """All run it next. Homes of earlier slots stay known."""
        before = self.plan
        plan = replace(plan, home={**plan.home, **before.home})
        self._core.succession.prepares(plan.follows(before))
        self._same_s = inf
