"""Which of several gateways a robot talks to. Pure; `link.py` connects.

A robot stays with the gateway that welcomed it until that is lost, and then asks the others in turn. A request is sent
to one gateway only, so none is answered twice. It is told which gateways there are, and learns of others of the same
schedule from its welcome: with these its token counts, too, and it keeps its slot.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

WELCOMES_WITHIN_S = 2.0  # a gateway that has not is followed by the next one
AT_ONCE = ("disconnected", "silent", "not_ready")  # causes for which a gateway that served is left at once
STAYS = ("removed",)  # a person's word: the robot does not look for a gateway that has not heard it


class KnownGateways:
    """The endpoints that a robot was given, and which of them is its own now."""

    def __init__(self, endpoints: Sequence[str]) -> None:
        self._endpoints = tuple(endpoints)
        self._schedule: frozenset[str] = frozenset()  # endpoints of the gateways of one schedule
        self._tokens: dict[str, str] = {}  # by endpoint: with which token each was left
        self._number = 0
        self._served = False
        self._until_s = inf  # when the next one's turn comes

    def __len__(self) -> int:
        return len(self._endpoints)

    @property
    def current(self) -> str:
        return self._endpoints[self._number]

    def learn(self, gateways: Sequence[str]) -> bool:
        """The gateway that serves says which others serve its schedule; its name for itself comes first, and the name
        by which the robot has reached it stays. Returns whether that is news."""
        others = [one for one in dict.fromkeys(gateways[1:]) if one != self.current]
        known = frozenset((self.current, *others)) if others else frozenset[str]()
        if known == self._schedule:
            return False
        before = [one for one in self._endpoints if one != self.current and one not in known]
        self._endpoints, self._number = (self.current, *others, *before), 0
        self._schedule = known
        return True

    def shares(self, one: str, other: str) -> bool:
        """Whether two gateways serve one schedule, so that a token of one counts with the other."""
        return one in self._schedule and other in self._schedule

    def token(self, before: str, left_with: str, kept: str = "") -> str:
        """The token with which to greet `current`, having left `before` with another or the same. `kept`: what a life
        before this one was given by `current`.

        One that was given by another gateway of the same schedule is the proof of the same slot. That they share it
        may have been heard only from a gateway that was greeted without one.
        """
        self._tokens[before] = left_with
        own = self._tokens.get(self.current, kept)
        if left_with and self.shares(before, self.current):
            return left_with
        of_others = (token for one, token in self._tokens.items() if token and self.shares(one, self.current))
        return own or next(of_others, "")

    def turns(self, now_s: float, ready: bool, cause: str) -> bool:
        """Whether to go to the next one now, which `current` then is. `cause`: why the robot is not served."""
        if ready or cause in STAYS or len(self._endpoints) < 2:
            self._served, self._until_s = ready, inf
            return False
        if self._until_s == inf:
            self._until_s = now_s if self._served and cause in AT_ONCE else now_s + WELCOMES_WITHIN_S
        if now_s < self._until_s:
            return False
        self._served, self._until_s = False, now_s + WELCOMES_WITHIN_S
        self._number = (self._number + 1) % len(self._endpoints)
        return True

    def next_turn_s(self) -> float:
        """When `turns` may say yes if nothing happens before."""
        return self._until_s
