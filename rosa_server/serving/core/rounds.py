"""What the server has seen of one stream's rounds: how long models ran for it, its robot acted, and it waited.

A round is a generation (a model runs a call) and the execution that follows it (Kairos 3.2.1). The robot reports
nothing: it acts from the answer on, and has finished when its next call arrives. For a robot that calls before the end
of its actions, that end is `acts_until_s`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(slots=True)
class Rounds:
    """The history of one stream in a few numbers. Times are seconds."""

    began_s: float  # first arrival
    attained_s: float = 0.0  # time that models have run for it
    waited_s: float = 0.0  # the sum of W_j of Algorithm 1
    last_execution_s: float = (
        math.inf
    )  # |E| of the last round, the estimate for the next one; infinite before it
    skipped: int = 0  # dispatches in a row that took other calls while one of this stream waited
    _generated_s: float = 0.0  # |G| of the last answered round
    _generation_end_s: float = math.inf  # infinite before the first answer
    _execution_start_s: float = 0.0
    _execution_end_s: float = math.inf  # infinite while the robot acts on its last answer, as far as is known

    def arrived(self, now_s: float, acts_until_s: float | None = None) -> None:
        """A call arrived. The first one after an answer ends that answer's execution; repeated ones change nothing."""
        if math.isfinite(self._generation_end_s) and math.isinf(self._execution_end_s):
            until_s = now_s if acts_until_s is None else acts_until_s
            self._execution_end_s = max(until_s, self._execution_start_s)
            self.last_execution_s = self._execution_end_s - self._execution_start_s

    def answered(self, start_s: float, end_s: float) -> None:
        """A model has run a call of this stream, and its output was sent.

        The wait between two rounds is counted on the side that dominates the first one (3.2.1): after a longer
        generation from its end to the next one's start, after a longer execution from its end to the next one's start.
        """
        self.waited_s += self._wait_before(start_s, end_s)
        acts_from_s = max(end_s, self._execution_end_s) if math.isfinite(self._execution_end_s) else end_s
        self._generated_s = end_s - start_s
        self._generation_end_s, self._execution_start_s = end_s, acts_from_s
        self._execution_end_s = math.inf

    def wait_ratio(self, now_s: float) -> float:
        """Equation (1) of Kairos while a call waits: the share of its lifetime that the stream has waited, from 0 to 1.

        The wait before the waiting call's own round counts as if it ran now; a call that has just come has waited 0.
        """
        lifetime_s = now_s - self.began_s
        waited_s = self.waited_s + self._wait_before(now_s, now_s + self._generated_s)
        return min(1.0, waited_s / lifetime_s) if lifetime_s > 0 else 0.0

    def _wait_before(self, start_s: float, end_s: float) -> float:
        """The wait between the last round and one whose generation is from `start_s` to `end_s`."""
        if math.isinf(self._generation_end_s):
            return start_s - self.began_s  # the first round: nothing runs before it
        if math.isinf(self._execution_end_s):
            return 0.0  # it is not known to have finished
        if self._generated_s >= self.last_execution_s:
            return max(0.0, start_s - self._generation_end_s)
        return max(0.0, end_s - self._execution_end_s)
