"""Slots of a schedule that several gateways share. Each slot is given out by one gateway, its home, and by no other.

A slot belongs to a robot, not to a connection: it is its robot's until that says bye, works with another slot, or is
removed by a person. The robot carries the proof, a token that every gateway of the schedule can check, so that it keeps
its slot with any of them and nobody has to be asked. What a home has given out is written down before the robot hears
of it; so it knows after a restart, too. Each time a slot is given out its number rises, and what was said of an earlier
number does not count.
"""

from __future__ import annotations

import hmac
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from hashlib import sha256
from itertools import takewhile
from typing import Protocol

from rosa_contract.wire.bounds import MAX_ROBOTS
from rosa_contract.wire.messages import Refused
from rosa_server.plan.admission import AdmissionControl
from rosa_server.plan.placement import Placement
from rosa_server.serving.core.sessions.slots import Slots, Taken, Warmth, not_ready, task_of

Grant = tuple[int, str]  # how often the slot has been given out, and the robot that has it; empty: nobody
NEVER: Grant = (0, "")
MAX_TOLD = 2 * MAX_ROBOTS  # slots of other homes that are known here; of a later schedule none beyond it
BETWEEN = "x"  # of a token's parts; the token is letters and digits


class KeepsGrants(Protocol):
    """Writes down which slots are given out, while everything goes on."""

    def keep(self, grants: Mapping[str, Grant]) -> int:
        """Begin to write these down. Returns the number of this writing, a higher one each time."""

    def kept(self, number: int) -> bool | None:
        """Whether that is written down, or something later; false where it could not be; None: it is under way."""


class KeptAtOnce:
    """For a simulation: `write` returns whether it could. Which schedule runs is kept nowhere."""

    def __init__(self, write: Callable[[Mapping[str, Grant]], bool]) -> None:
        self._write, self._number, self._failed = write, 0, 0

    def keep(self, grants: Mapping[str, Grant]) -> int:
        self._number += 1
        if not self._write(grants):
            self._failed = self._number
        return self._number

    def keep_plan(self, plan: object) -> int:
        self._number += 1
        return self._number

    def kept(self, number: int) -> bool | None:
        return number > self._failed


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
        sealed = hmac.compare_digest(parts[2].encode(), self._seal(robot, slot, number).encode())
        return (slot, number) if sealed else None

    def _seal(self, robot: str, slot: str, number: int) -> str:
        told = f"{len(robot)} {robot} {slot} {number}"
        return hmac.new(self._secret, told.encode(), sha256).hexdigest()


class HomeSlots(Slots):
    """The slots that this gateway gives out, and those of others that robots bring along."""

    def __init__(
        self,
        placement: Placement,
        admission: AdmissionControl,
        warmth: Warmth,
        home: Mapping[str, str],
        here: str,
        reach: Mapping[str, str],
        tokens: SlotTokens,
        kept: Mapping[str, Grant],
        keeper: KeepsGrants,
        passing: tuple[str, ...] = (),
        closed: tuple[str, ...] = (),
    ) -> None:
        """`home`: slot -> its gateway, of which `here` is this one; `reach`: where robots reach each. `kept`: what
        `keeper` wrote down last, before the gateway was started again. `passing`: how names begin of robots that go to
        no other gateway, and do not come back under their names: they leave their slots with their connections.
        `closed`: slots that nobody is given any more."""
        self._home, self._here, self._reach, self._tokens = home, here, reach, tokens
        self._keeper = keeper
        self._writing: dict[
            str, tuple[int, str]
        ] = {}  # slot -> the writing of its grant, and which robot had it before
        self._passing, self._closed = passing, frozenset(closed)
        self.grants: dict[str, Grant] = {
            slot: (number, "" if robot.startswith(passing) else robot)
            for slot, (number, robot) in kept.items()
        }
        self.version = 1  # rises with each change of `grants`
        self._changed = dict.fromkeys(
            kept, 1
        )  # slot -> the version with which it changed last, the newest last
        self.told: dict[str, Grant] = {}  # of other homes' slots: what they say
        self._guests: dict[str, Grant] = {}  # slots of others that robots have brought here
        self.returned: dict[
            str, Grant
        ] = {}  # of those, given back here; their home has not said that it knows
        super().__init__(placement, admission, warmth)

    def plan(self, home: Mapping[str, str], closed: tuple[str, ...]) -> None:
        """Of the placement that is adopted next. A slot keeps its home in all of them, also while it is in none."""
        self._home, self._closed = home, frozenset(closed)

    def adopt(
        self, placement: Placement, admission: AdmissionControl, planned: Mapping[str, int] | None = None
    ) -> None:
        """See `Slots`. That the slots which it lacks are free is known: their homes had closed them before."""
        self.placement, self.admission, self._frozen = placement, admission, ""
        self._free.clear()
        self.planned = Counter(planned or map(task_of, self._routes))
        for slot in self._routes:
            self._put(slot)
        self.changed()

    def taken(self) -> set[str]:
        """The slots of the placement that robots have, of all homes, as far as these have said it."""
        known = {**self.told, **self.grants}
        return {slot for slot in self._routes if known.get(slot, NEVER)[1]}

    def take(self, task: str, robot: str = "", token: str = "") -> Taken | Refused:
        """The slot that the robot proves to have, the one that it has by its name, or a free one of this gateway."""
        claim = self._tokens.claim(robot, task, token)
        if self._later(task, robot, claim):
            words = (
                "the slot of this robot is in a later schedule than the one that runs here; say hello again"
            )
            return Refused("not_ready", words, self._all())
        if claim is not None and self._holds(robot, *claim):
            slot, number = claim
            cold = self._cold(self.placement, slot)
            if cold is not None:
                return replace(not_ready(cold), gateways=self._all())
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
            return (
                found if found.cause == "not_ready" else replace(found, gateways=self._with_room(task, robot))
            )
        return self._granted(found.slot, robot)

    def _later(self, task: str, robot: str, claim: tuple[str, int] | None) -> bool:
        """Whether the robot has a slot that no schedule has had, as far as this gateway knows: it was away."""
        slots = [slot for slot in self.of_robot(robot) if task_of(slot) == task]
        return any(slot not in self._home for slot in (*slots, *([claim[0]] if claim is not None else ())))

    def _all(self) -> tuple[str, ...]:
        """Where the robot reaches the gateways of the schedule, this one first; its proof counts with each of them."""
        others = (node for node in self._reach if node != self._here)
        return tuple(self._reach[node] for node in (self._here, *others))

    def _with_room(self, task: str, robot: str) -> tuple[str, ...]:
        """Where the robot reaches the gateways that may have a slot of this task for it, or have given it one, this one
        first; empty: none has."""
        free = {
            home: None
            for slot, home in self._home.items()
            if home != self._here
            and task_of(slot) == task
            and slot in self._routes
            and (slot not in self._closed or self.told.get(slot, NEVER)[1] == robot)
            and self.told.get(slot, NEVER)[1] in ("", robot)
        }
        return tuple(self._reach[node] for node in (self._here, *free)) if free else ()

    @property
    def _routes(self) -> Mapping[str, Mapping[str, str]]:
        return self.placement.routes or {}

    def _holds(self, robot: str, slot: str, number: int) -> bool:
        """Whether nobody was given the slot since, and it was not given back here. Of another home's slot it is what
        that has said last."""
        if slot not in self._routes or slot not in self._home:
            return False
        if self._home[slot] == self._here:
            return self.grants.get(slot, NEVER) == (number, robot)
        known = self.told.get(slot, NEVER)
        if self.returned.get(slot) == (number, robot):
            return False
        return number > known[0] or known == (number, robot)

    def _granted(self, slot: str, robot: str) -> Taken | Refused:
        before = self.grants.get(slot, NEVER)
        number = before[0] + 1
        self._set(slot, (number, robot))
        self._writing[slot] = (self._keeper.keep(self.grants), before[1])
        if self.written(slot) is False:
            return self.unwritten(slot)
        return Taken(slot, token=self._tokens.token(robot, slot, number))

    def written(self, slot: str) -> bool | None:
        """Whether it is written down which robot has this slot; None: it is under way."""
        if slot not in self._writing:
            return True
        done = self._keeper.kept(self._writing[slot][0])
        if done:
            del self._writing[slot]
        return done

    def unwritten(self, slot: str) -> Refused:
        """It could not be written down, so nobody was told. The number is not used again: what was written may have
        arrived."""
        _, before = self._writing.pop(slot)
        self._set(slot, (self.grants[slot][0], before))
        self._put(slot)
        return Refused("not_ready", "the slot cannot be written down; say hello again")

    def release(self, slot: str, bye: bool = False) -> bool:
        """The robot of a slot has left. Only with a `bye` it leaves the slot, unless it cannot come back."""
        self.changed()
        bye = bye or self.grants.get(slot, NEVER)[1].startswith(self._passing)
        if bye and self._home[slot] == self._here:
            self.give_back(slot, self.grants.get(slot, NEVER))
        elif bye and slot in self._guests:
            self.returned[slot] = self._guests.pop(slot)
        return False

    def give_back(self, slot: str, grant: Grant) -> None:
        """Nobody has this slot of ours any more, unless it has been given out again since this grant."""
        if grant[1] and self.grants.get(slot) == grant:
            self._set(slot, (grant[0], ""))
            self._writing.pop(slot, None)
            self._keeper.keep(self.grants)
            self._put(slot)
            self.changed()

    def _set(self, slot: str, grant: Grant) -> None:
        self.version += 1
        self.grants[slot] = grant
        self._changed.pop(slot, None)
        self._changed[slot] = self.version

    def since(self, version: int) -> dict[str, Grant]:
        """What has changed after this version of `grants`; 0: all of it."""
        newest = takewhile(lambda slot: self._changed[slot] > version, reversed(self._changed))
        return {slot: self.grants[slot] for slot in newest}

    def hears(self, node: str, grants: Mapping[str, Grant]) -> None:
        """Another gateway says what it has given out since it said that last."""
        for slot, grant in grants.items():
            if self._home.get(slot, node) != node or grant[0] < self.told.get(slot, NEVER)[0]:
                continue
            if slot in self._home or slot in self.told or len(self.told) < MAX_TOLD:
                self.told[slot] = grant
        self.settle()

    def settle(self) -> None:
        """What was given back here, and its home knows, need not be said again."""
        for slot, grant in list(self.returned.items()):
            known = self.told.get(slot, NEVER)
            if known[0] >= grant[0] and known != grant:
                del self.returned[slot]

    def take_from(self, robot: str) -> None:
        """A person has taken this robot out: it has no slot any more, whichever gateway has given it one."""
        for slot in self.of_robot(robot):
            self.give_back(slot, self.grants[slot])
        for slot, (number, has) in [*self.told.items(), *self._guests.items()]:
            if has == robot and self._holds(robot, slot, number):
                self.returned[slot] = (number, robot)

    def spare(self, slot: str, grant: Grant) -> None:
        """A robot that works with another slot here needs this one no more, and has the proof of that one alone: it has
        come back with another task, or was given both while two gateways knew nothing of each other."""
        if self.grants.get(slot) == grant:
            self.give_back(slot, grant)
        elif self._home.get(slot, self._here) != self._here:
            self.returned[slot] = grant

    def knows(self, robot: str) -> bool:
        """Whether this robot has a slot of any gateway, as far as is known here."""
        return any(has == robot for _, has in (*self.grants.values(), *self.told.values()))

    def of_robot(self, robot: str) -> list[str]:
        """The slots of ours that this robot has."""
        return [slot for slot, grant in self.grants.items() if grant[1] == robot]

    def trim(self) -> bool:
        return False

    def _put(self, slot: str) -> None:
        mine = self._home.get(slot) == self._here and slot in self._routes
        if mine and slot not in self._closed and not self.grants.get(slot, NEVER)[1]:
            super()._put(slot)
