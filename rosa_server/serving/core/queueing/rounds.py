"""What the server has seen of one stream's rounds: how long models ran for it, its robot acted, and it waited.

A round is a generation (a model runs a call) and the execution that follows it (Kairos 3.2.1). A robot acts from the
answer on. When it will have finished it says with its next call (`acts_until_s`); one that says nothing has finished
when that call arrives.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(slots=True)
class Rounds:
    """The history of one stream in a few numbers. Times are seconds."""

    began_s: float  # first arrival
    attained_s: float = 0.0  # time that models have run for it
    acted_s: float = 0.0  # the sum of the executions that are known to have ended
    waited_s: float = 0.0  # the sum of W_j of Algorithm 1: waits between recorded rounds
    generated_s: float = 0.0  # |G| of the last answered round
    last_execution_s: float = (
        0.0  # |E| of the last recorded round, the estimate for the next one; 0 before it
    )
    _generation_end_s: float = math.inf  # infinite before the first answer
    _execution_start_s: float = 0.0
    _execution_end_s: float = math.inf  # infinite while the robot acts on its last answer, as far as is known

    def arrived(self, now_s: float, acts_until_s: float | None = None) -> None:
        """A call arrived. The first one after an answer ends that answer's execution; repeated ones change nothing."""
        if math.isfinite(self._generation_end_s) and math.isinf(self._execution_end_s):
            until_s = now_s if acts_until_s is None else acts_until_s
            self._execution_end_s = max(until_s, self._execution_start_s)
            self.last_execution_s = self._execution_end_s - self._execution_start_s
            self.acted_s += self.last_execution_s

    def answered(self, start_s: float, end_s: float) -> None:
        """A model has run a call of this stream, and its output was sent.

        The wait between two rounds is counted on the side that dominates the first one (3.2.1): after a longer
        generation from its end to the next one's start, after a longer execution from its end to the next one's start.
        """
        self.waited_s += self._wait_before(start_s, end_s)
        acts_from_s = max(end_s, self._execution_end_s) if math.isfinite(self._execution_end_s) else end_s
        self.generated_s = end_s - start_s
        self._generation_end_s, self._execution_start_s = end_s, acts_from_s
        self._execution_end_s = math.inf

    def wait_ratio(self, now_s: float) -> float:
        """Equation (1) of Kairos: the share of its lifetime that the stream has waited between rounds, from 0 to 1."""
        lifetime_s = now_s - self.began_s
        return min(1.0, self.waited_s / lifetime_s) if lifetime_s > 0 else 0.0

    def _wait_before(self, start_s: float, end_s: float) -> float:
        """The wait between the last round and one whose generation is from `start_s` to `end_s`."""
        if math.isinf(self._generation_end_s) or math.isinf(self._execution_end_s):
            return 0.0  # no round was recorded before it
        if self.generated_s >= self.last_execution_s:
            return max(0.0, start_s - self._generation_end_s)
        return max(0.0, end_s - self._execution_end_s)
