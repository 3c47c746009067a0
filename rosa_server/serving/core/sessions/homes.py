"""Slots of a schedule that several gateways share. Each slot is given out by one gateway, its home, and by no other.

A slot belongs to a robot, not to a connection: it is its robot's until that says bye, or a person removes it. The robot
carries the proof, a token that every gateway of the schedule can check, so that it keeps its slot with any of them and
nobody has to be asked. What a home has given out it writes down before the robot hears of it; so it knows after a
restart, too. Each time a slot is given out its number rises, and what was said of an earlier number does not count.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from hashlib import sha256

from rosa_contract.wire.messages import Refused
from rosa_server.plan.admission import AdmissionControl
from rosa_server.plan.placement import Placement
from rosa_server.serving.core.sessions.failover import Failover
from rosa_server.serving.core.sessions.slots import Slots, Taken, not_ready, task_of

Grant = tuple[int, str]  # how often the slot has been given out, and the robot that has it; empty: nobody
NEVER: Grant = (0, "")
BETWEEN = "x"  # of a token's parts; the token is letters and digits


class SlotTokens:
    """The proof that a robot has a slot. `secret`: what only the gateways of the schedule know."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def token(self, robot: str, slot: str, number: int) -> str:
        return f"{slot.rpartition('/')[2]}{BETWEEN}{number}{BETWEEN}{self._seal(robot, slot, number)}"

    def claim(self, robot: str, task: str, token: str) -> tuple[str, int] | None:
        """The slot of this task that the token gives to this robot, and the number of the grant; None: it is none."""
        parts = token.split(BETWEEN)
        if len(parts) != 3 or not all(
            part.isascii() and part.isdigit() and len(part) <= 18 for part in parts[:2]
        ):
            return None
        slot, number = f"{task}/{int(parts[0])}", int(parts[1])
        return (slot, number) if hmac.compare_digest(parts[2], self._seal(robot, slot, number)) else None

    def _seal(self, robot: str, slot: str, number: int) -> str:
        told = f"{len(robot)} {robot} {slot} {number}"
        return hmac.new(self._secret, told.encode(), sha256).hexdigest()


class HomeSlots(Slots):
    """The slots that this gateway gives out, and those of others that robots bring along."""

    def __init__(
        self,
        placement: Placement,
        admission: AdmissionControl,
        failover: Failover,
        home: Mapping[str, str],
        here: str,
        tokens: SlotTokens,
        kept: Mapping[str, Grant],
        keep: Callable[[Mapping[str, Grant]], bool],
    ) -> None:
        """`home`: slot -> its gateway, of which `here` is this one. `kept`: what `keep` was told last, before the
        gateway was started again; it returns when that is written down, or false where it cannot be."""
        self._home, self._here, self._tokens, self._keep = home, here, tokens, keep
        self.grants: dict[str, Grant] = dict(kept)
        self.told: dict[str, Grant] = {}  # of other homes' slots: what they say
        self._guests: dict[str, Grant] = {}  # slots of others that robots have brought here
        self.returned: dict[
            str, Grant
        ] = {}  # of those, given back here; their home has not said that it knows
        super().__init__(placement, admission, failover)

    def take(self, task: str, robot: str = "", token: str = "") -> Taken | Refused:
        """The slot that the robot proves to have, the one that it has by its name, or a free one of this gateway."""
        claim = self._tokens.claim(robot, task, token)
        if claim is not None and self._holds(robot, *claim):
            slot, number = claim
            cold = self._cold(self.placement, slot)
            if cold is not None:
                return not_ready(cold)
            if self._home[slot] != self._here:
                self._guests[slot] = (number, robot)
            return Taken(slot, token=token)
        own = next(
            (s for s, g in self.grants.items() if g[1] == robot and task_of(s) == task and s in self._routes),
            "",
        )
        if own:
            cold = self._cold(self.placement, own)
            return not_ready(cold) if cold is not None else self._granted(own, robot)
        found = super().take(task)
        if isinstance(found, Refused):
            return found
        granted = self._granted(found.slot, robot)
        if isinstance(granted, Refused):
            self._put(found.slot)
        return granted

    @property
    def _routes(self) -> Mapping[str, Mapping[str, str]]:
        return self.placement.routes or {}

    def _holds(self, robot: str, slot: str, number: int) -> bool:
        """Whether nobody was given the slot since. Of another home's slot it is what that has said last."""
        if slot not in self._routes or slot not in self._home:
            return False
        if self._home[slot] == self._here:
            return self.grants.get(slot, NEVER) == (number, robot)
        known = self.told.get(slot, NEVER)
        return number > known[0] or known == (number, robot)

    def _granted(self, slot: str, robot: str) -> Taken | Refused:
        before = self.grants.get(slot, NEVER)
        number = before[0] + 1
        self.grants[slot] = (number, robot)
        if not self._keep(self.grants):
            # Nobody was told. The number is not used again: what was written may have arrived all the same.
            self.grants[slot] = (number, before[1])
            return Refused("not_ready", "the slot cannot be written down; say hello again")
        return Taken(slot, token=self._tokens.token(robot, slot, number))

    def release(self, slot: str, bye: bool = False) -> bool:
        """The robot of a slot has left. Only with a `bye` it leaves the slot."""
        self.changed()
        if bye and self._home[slot] == self._here:
            self.give_back(slot, self.grants.get(slot, NEVER))
        elif bye and slot in self._guests:
            self.returned[slot] = self._guests.pop(slot)
        return False

    def give_back(self, slot: str, grant: Grant) -> None:
        """Nobody has this slot of ours any more, unless it has been given out again since this grant."""
        if grant[1] and self.grants.get(slot) == grant:
            self.grants[slot] = (grant[0], "")
            self._keep(self.grants)
            self._put(slot)
            self.changed()

    def hears(self, node: str, grants: Mapping[str, Grant]) -> None:
        """Another gateway says what it has given out. What was given back here, and it knows, is settled."""
        for slot, grant in grants.items():
            if self._home.get(slot) == node and grant[0] >= self.told.get(slot, NEVER)[0]:
                self.told[slot] = grant
                if slot in self.returned and self.returned[slot] != grant:
                    del self.returned[slot]

    def spare(self, slot: str, grant: Grant) -> None:
        """A robot that works with another slot here needs this one no more: it was given both while two gateways knew
        nothing of each other, and has the proof of one alone."""
        if self.grants.get(slot) == grant:
            self.give_back(slot, grant)
        elif self._home.get(slot, self._here) != self._here:
            self.returned[slot] = grant

    def of_robot(self, robot: str) -> list[str]:
        """The slots of ours that this robot has."""
        return [slot for slot, grant in self.grants.items() if grant[1] == robot]

    def trim(self) -> bool:
        return False

    def _put(self, slot: str) -> None:
        if self._home.get(slot) == self._here and not self.grants.get(slot, NEVER)[1]:
            super()._put(slot)
