"""What the robot has seen: its newest observation, the one that this round is about, and from when on it sees again."""

from __future__ import annotations

from math import inf
from typing import NamedTuple


class Observed(NamedTuple):
    """One observation: its number, when it was taken, and the time of its oldest sample."""

    number: int
    taken_s: float
    oldest_s: float


class Sight:
    """Only this class writes what is here."""

    def __init__(self) -> None:
        self.fresh_after_s = 0.0  # an older observation does not show the present scene
        self.looks_from_s = -inf  # the arm settles after its chunk until then; what a round sees comes later
        self.newest = Observed(0, -inf, -inf)
        self.is_new = False  # the newest was taken in this control period
        self.of_round: Observed | None = None  # what this round's System 1 or 2 was asked about

    def begin_period(self) -> None:
        """Another control period."""
        self.is_new = False

    def observe(self, now_s: float, oldest_s: float) -> Observed:
        """Take an observation now."""
        self.newest, self.is_new = Observed(self.newest.number + 1, now_s, oldest_s), True
        return self.newest

    def asks_about(self, observed: Observed) -> None:
        """System 1 or 2 is asked about it."""
        self.of_round = observed

    def again(self, after_s: float) -> None:
        """What was observed up to then does not show the present scene."""
        self.fresh_after_s, self.of_round = after_s, None

    def settle_until(self, until_s: float) -> None:
        """The arm settles until then."""
        self.looks_from_s = until_s
