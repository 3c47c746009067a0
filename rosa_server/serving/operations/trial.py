"""New weights on trial, before any worker runs them for good: as a canary, or in the shadow."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping

from rosa_contract.wire.watching import Order
from rosa_server.serving.core.workers.comparing import MIN_ANSWERS, TrialLimits, unlike, worse
from rosa_server.serving.operations.names import ROLLOUT
from rosa_server.serving.operations.order import OperationError, Site
from rosa_server.serving.operations.terms import OPTIONS, PATIENCE, Terms

MAX_TRIAL_S = 86_400.0
MAX_LIMIT = 1e6


def terms_of(order: Order) -> Terms:
    """`60 share=0.5 slower=2 /path` -> 60 s, half of the robots, twice as slow. Raises `OperationError`."""
    if order.what == ROLLOUT:
        return Terms(order.value)
    seconds, _, rest = order.value.partition(" ")
    trial_s = _number(seconds)
    if not 0 < trial_s <= MAX_TRIAL_S:
        words = f"expected more than 0 and at most {MAX_TRIAL_S:g} seconds to compare, got {seconds!r}"
        raise OperationError("bad_value", words)
    told: dict[str, float] = {}
    while rest and not rest.startswith("/"):
        word, _, rest = rest.partition(" ")
        name, _, text = word.partition("=")
        value = _number(text)
        limit = 1.0 if name == "share" else MAX_LIMIT
        if name not in OPTIONS or not 0 < value <= limit:
            words = f"expected {', '.join(OPTIONS)} above 0, and a share of at most 1, got {word!r}"
            raise OperationError("bad_value", words)
        told[name] = value
    share = told.pop("share", 1.0)
    return Terms(rest, order.what, trial_s, share, TrialLimits(**told))


def _number(text: str) -> float:
    """Not a number where it is none."""
    try:
        return float(text)
    except ValueError:
        return math.nan


class WeightsTrial(ABC):
    """One new worker beside an old one. `heir`: the new one, warm."""

    def __init__(self, site: Site, terms: Terms, heir: str, now_s: float) -> None:
        self.site, self.terms, self.heir = site, terms, heir
        self._until_s = now_s + terms.seconds

    @abstractmethod
    def look(self, now_s: float, gone: Mapping[str, str]) -> str | None:
        """None: it goes on. Empty: the new worker may take over. Else why it may not."""

    def _waits(self, now_s: float, answers: int) -> bool:
        """Where few calls come it takes longer."""
        few = answers < MIN_ANSWERS
        return now_s < self._until_s + (few and PATIENCE * self.terms.seconds)

    @abstractmethod
    def promote(self, now_s: float) -> bool:
        """The new worker takes over. False: not yet. Raises `ValueError` where it has ended."""

    @abstractmethod
    def end(self) -> None:
        """Nothing is compared any more."""

    @property
    @abstractmethod
    def told(self) -> str:
        """What both have answered."""


class Canary(WeightsTrial):
    """Both take calls of one queue."""

    def __init__(self, site: Site, terms: Terms, heir: str, now_s: float, old: str) -> None:
        super().__init__(site, terms, heir, now_s)
        self._pair = heir, old
        site.tells.compare(self._pair)
        worker = site.core.pool.get(heir)
        self._queue = worker.queue if worker is not None else ""
        site.core.pool.in_turn(self._queue, True)

    def look(self, now_s: float, gone: Mapping[str, str]) -> str | None:
        new, old = self._pair
        tallies = self.site.tells.compare(self._pair)
        if new in gone:
            return f"{new} has ended ({gone[new]})"
        answers = min(one.answers for one in tallies.values())
        if old in gone and answers < MIN_ANSWERS:
            return ""  # nothing speaks against the one that serves
        if old not in gone and self._waits(now_s, answers):
            return None
        return worse(tallies[new], tallies[old], self.terms.limits)

    def promote(self, now_s: float) -> bool:
        return True

    def end(self) -> None:
        self.site.tells.compare_no_more(self._pair)
        self.site.core.pool.in_turn(self._queue, False)

    @property
    def told(self) -> str:
        new, old = self._pair
        tallies = self.site.tells.compare(self._pair)
        return f"new: {tallies[new]}; old: {tallies[old]}"


class InShadow(WeightsTrial):
    """The new one answers copies of calls, and no robot hears of it."""

    def __init__(self, site: Site, terms: Terms, heir: str, model: str) -> None:
        """Before it is warm."""
        super().__init__(site, terms, heir, math.inf)
        self._shadow = site.core.shadow(heir, model, terms.share)

    def begin(self, now_s: float) -> None:
        """It is warm."""
        self._until_s = now_s + self.terms.seconds

    def look(self, now_s: float, gone: Mapping[str, str]) -> str | None:
        if self.heir in gone:
            return f"{self.heir} has ended ({gone[self.heir]})"
        if self._waits(now_s, self._shadow.new.answers):
            return None
        why = worse(self._shadow.new, self._shadow.old, self.terms.limits)
        return why or unlike(self._shadow.likeness, self.terms.limits)

    def promote(self, now_s: float) -> bool:
        if not self.site.core.enlist(now_s, self.heir):
            return False
        self.site.cluster.inherit(self.heir.rpartition(".")[0])
        return True

    def end(self) -> None:
        self.site.core.unshadow(self.heir)

    @property
    def told(self) -> str:
        return str(self._shadow)
