"""When a worker that ended may be started again, and when that has no sense any more."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from rosa_contract.process import ending
from rosa_server.serving.worker_spec import MISCONFIGURED, WorkerSpec

FIRST_DELAY_S = 0.2
LONGEST_DELAY_S = 30.0
CALM_AFTER_S = 5.0  # a worker that was ready this long has served: its next life starts without delay
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

    def ended(self, ready_s: float | None, now_s: float) -> float:
        """The time at which to start the next one. `ready_s`: since when the ended one was ready; None: it was not."""
        if ready_s is None:
            self._failed_starts += 1
        else:
            self._was_ready = True
            if now_s - ready_s >= CALM_AFTER_S:
                self._delay_s = 0.0
        return self.later(now_s)

    def later(self, now_s: float) -> float:
        """The same where no process could be started: that says nothing about the worker."""
        due_s = now_s + self._delay_s
        self._delay_s = min(LONGEST_DELAY_S, max(FIRST_DELAY_S, 2 * self._delay_s))
        return due_s


@dataclass
class Lives:
    """The lives of one worker, one after the other; every life has an id of its own."""

    spec: WorkerSpec
    backoff: Backoff = field(default_factory=Backoff)
    worker_id: str = ""
    life: int = 0
    start_at_s: float = 0.0
    ready_s: float | None = None  # since when this life is ready
    killed_for: str = ""
    misconfigured: str = ""  # why it cannot work as configured

    def begin(self) -> str:
        """The id of the next life."""
        self.life += 1
        self.worker_id = f"{self.spec.worker_id}.{self.life}"
        return self.worker_id

    def ended(self, status: int | None, now_s: float, why: str = "") -> str:
        """This life is over. `status`: its exit status; None: nobody knows it, and `why` says what is known.

        Returns why it ended. A life that was misconfigured in its first try gets no other one.
        """
        misconfigured = status == MISCONFIGURED and self.ready_s is None
        if status is not None:
            why = "cannot work as configured" if misconfigured else ending(status)
        why = self.killed_for or why
        self.start_at_s = self.backoff.ended(self.ready_s, now_s)
        self.killed_for, self.ready_s = "", None
        if misconfigured and self.life == 1:
            self.start_at_s = math.inf
        if misconfigured or self.backoff.hopeless:
            tried = "" if misconfigured else f"; none of {MAX_FAILED_STARTS} starts made it ready"
            words = f"{self.worker_id} {why}{tried}; its last words in the log say why"
            self.misconfigured = f"models.{self.spec.model}: {words}"
        return why
