"""When a worker that ended may be started again, and when that has no sense any more."""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from typing import TypeVar, cast

from rosa_contract.process import ending
from rosa_server.serving.base.worker_spec import MISCONFIGURED, MODEL_BROKEN, WorkerSpec

FIRST_DELAY_S = 0.2
LONGEST_DELAY_S = 30.0
CALM_AFTER_S = 5.0  # a worker that was ready this long has served: its next life starts without delay
CALM_AFTER_BROKEN_S = (
    600.0  # the same for one whose model broke: it is ready again each time, and may break again
)
MAX_FAILED_STARTS = 5  # lives that ended before any was ever ready


class Backoff:
    """Doubles the delay with every early end, so that a worker that cannot start does not keep the machine busy."""

    def __init__(self) -> None:
        self._delay_s = 0.0
        self._failed_starts = 0
        self._was_ready = False

    @property
    def hopeless(self) -> bool:
        """Whether it has tried often enough: no life was ever ready."""
        return not self._was_ready and self._failed_starts >= MAX_FAILED_STARTS

    def ended(self, ready_s: float | None, now_s: float, broken: bool = False) -> float:
        """The time at which to start the next one. `ready_s`: since when the ended one was ready; None: it was not.

        `broken`: it was ended because its model failed every call.
        """
        if ready_s is None:
            self._failed_starts += 1
        else:
            self._was_ready = True
            if now_s - ready_s >= (CALM_AFTER_BROKEN_S if broken else CALM_AFTER_S):
                self._delay_s = 0.0
        return self.later(now_s)

    def later(self, now_s: float) -> float:
        """The same where no process could be started: that says nothing about the worker."""
        due_s = now_s + self._delay_s
        self._delay_s = min(LONGEST_DELAY_S, max(FIRST_DELAY_S, 2 * self._delay_s))
        return due_s


class Numbers:
    """Numbers of lives. A worker and its heir share them, so that no id is given twice."""

    def __init__(self, last: int = 0) -> None:
        self.last = last

    def take(self) -> int:
        self.last += 1
        return self.last


@dataclass(eq=False)
class Lives:
    """The lives of one worker, one after the other; every life has its own id."""

    spec: WorkerSpec
    backoff: Backoff = field(default_factory=Backoff)
    worker_id: str = ""
    life: int = 0
    numbers: Numbers = field(default_factory=Numbers)
    reserved: int = 0  # the number of the next life, where it was named before
    start_at_s: float | None = 0.0  # when the next life is due; None: one runs
    ready_s: float | None = None  # since when this life is ready
    killed_for: str = ""
    misconfigured: str = ""  # why it cannot work as configured
    held: bool = False  # it is not started again
    took_from: Lives | None = None  # whose place it has taken
    dropped: bool = False  # it is forgotten when it has ended
    trial_of: Lives | None = None  # it shall take the place of this one, once it is ready ...
    waits: bool = False  # ... and somebody says so

    def forget_process(self) -> None:
        """This is a copy of a worker whose process is not its own."""

    def begin(self) -> str:
        """The id of the next life."""
        self.life, self.reserved, self.start_at_s = self.reserved or self.numbers.take(), 0, None
        self.worker_id = f"{self.spec.worker_id}.{self.life}"
        return self.worker_id

    def starts(self, now_s: float) -> bool:
        """Whether the next life is due."""
        return not self.held and self.start_at_s is not None and now_s >= self.start_at_s

    def ended(self, status: int | None, now_s: float, why: str = "") -> str:
        """This life is over. `status`: its exit status; None: nobody knows it, and `why` says what is known.

        Returns why it ended. A life that was misconfigured in its first try gets no other one.
        """
        misconfigured = status == MISCONFIGURED and self.ready_s is None
        if status is not None:
            why = "cannot work as configured" if misconfigured else ending(status)
        broken = status == MODEL_BROKEN and self.ready_s is not None
        why = self.killed_for or ("its model fails every call" if broken else why)
        self.start_at_s = self.backoff.ended(self.ready_s, now_s, broken)
        self.killed_for, self.ready_s = "", None
        if misconfigured and self.life == 1:
            self.start_at_s = math.inf
        if misconfigured or self.backoff.hopeless:
            tried = "" if misconfigured else f"; none of {MAX_FAILED_STARTS} starts made it ready"
            words = f"{self.worker_id} {why}{tried}; its last words in the log say why"
            self.misconfigured = f"models.{self.spec.model}: {words}"
        return why


AnyLives = TypeVar("AnyLives", bound=Lives)


class Roster(list[AnyLives]):
    """The workers that a cluster keeps running. A worker may have an heir, which starts beside it."""

    def find(self, worker_id: str) -> AnyLives | None:
        """The worker whose present life this is."""
        return next((one for one in self if one.worker_id == worker_id), None)

    def named(self, name: str) -> list[AnyLives]:
        """The worker of this name, and its heir if it has one."""
        return [one for one in self if one.spec.worker_id == name]

    def hold(self, name: str, held: bool) -> None:
        """Start a worker of this name again when it ends, or do not. One that another one has replaced never is."""
        for one in self.named(name):
            one.held = held or one.dropped

    def change(self, name: str, change: Callable[[WorkerSpec], WorkerSpec]) -> None:
        """The next life of this worker has another spec."""
        for one in self.named(name):
            one.spec = change(one.spec)

    def bequeath(self, name: str, change: Callable[[WorkerSpec], WorkerSpec], waits: bool = False) -> str:
        """Have an heir of this worker started beside it. Returns the id of its first life. `waits`: it takes the place
        when `inherit` says so, and not as soon as it is ready.

        Raises `ValueError` where the worker has an heir already.
        """
        lives = self.named(name)
        if len(lives) != 1:
            raise ValueError(f"{name} has an heir already, or does not exist")
        (old,) = lives
        heir = copy(old)
        heir.spec, heir.backoff, heir.trial_of = change(old.spec), Backoff(), old
        heir.ready_s, heir.killed_for, heir.misconfigured, heir.held = None, "", "", False
        heir.start_at_s, heir.waits, heir.took_from = 0.0, waits, None
        heir.reserved = heir.numbers.take()
        heir.forget_process()
        old.took_from = None  # the one before it does not come back any more
        self.append(heir)
        return f"{name}.{heir.reserved}"

    def forget_heir(self, worker_id: str) -> bool:
        """Forget an heir whose first life, this one, has not begun. False where there is none."""
        found = [one for one in self if one.reserved and f"{one.spec.worker_id}.{one.reserved}" == worker_id]
        for one in found:
            self.remove(one)
        return bool(found)

    def is_ready(self, worker_id: str, now_s: float) -> None:
        """This life has announced itself. An heir takes its place: the old worker is not started again.

        Raises `ValueError` for one that is held, as one that still loaded when it was.
        """
        one = self.find(worker_id)
        if one is not None:
            one.ready_s = now_s if one.ready_s is None else one.ready_s
            if one.held:
                raise ValueError("nobody waits for it: it is drained, or another one has its place")
            if not one.waits:
                self._take_over(one)

    def inherit(self, name: str) -> None:
        """The heir that waits takes the place. Raises `ValueError` where it has ended."""
        for one in self.named(name):
            if one.waits and one.ready_s is not None:
                one.waits = False
                self._take_over(one)
                return
        raise ValueError(f"the heir of {name} has ended meanwhile")

    def _take_over(self, heir: AnyLives) -> None:
        if heir.trial_of is None:
            return
        old = heir.took_from = heir.trial_of
        heir.trial_of, old.held, old.dropped = None, True, True
        if old.start_at_s is not None:  # it has ended already
            self[:] = [one for one in self if one is not old]

    def revert(self, name: str) -> AnyLives:
        """The heir gives the place back to the worker that it took it from, or waits for it no more. Returns the heir,
        which is to end. The old worker starts again where it has ended meanwhile.

        Raises `ValueError` where there is no such heir.
        """
        lives = self.named(name)
        for heir in lives:
            old = heir.took_from or heir.trial_of
            if old is not None:
                if all(one is not old for one in lives):
                    self.append(cast(AnyLives, old))
                old.held = old.dropped = False
                heir.held = heir.dropped = True
                return heir
        raise ValueError(f"{name} has no heir")

    def settle(self, ended: AnyLives) -> None:
        """A life has ended: an heir that never was ready is given up, and one whose heir works leaves."""
        if ended.dropped or ended.trial_of is not None:
            self.remove(ended)
