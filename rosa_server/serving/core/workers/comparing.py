"""Whether new weights do as well as the old ones: what both have answered, and a rule.

Pure. A canary and the old worker take calls from one queue, so that both see the same robots, load and network. A
shadow answers copies of calls, and its answers can be laid beside those that the robots got.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from rosa_contract.config.spaces import chunks_in
from rosa_contract.wire.messages import Output

MIN_ANSWERS = 20  # of each; fewer say nothing
MIN_SPREAD = 1e-3  # of an action's own unit: a joint that holds still counts as if it moved by this
MAX_ARRAYS = 8  # by name
STEP = "step_s"  # the array that says at which pace actions are played


@dataclass(frozen=True)
class TrialLimits:
    """How much worse, and how different, new weights may be."""

    failed: float = 0.02  # share of its answers that may fail beyond the old one's
    late: float = 0.05  # the same for answers that come too late
    slower: float = 1.5  # a call may take this many times as long ...
    slower_ms: float = 5.0  # ... and this much longer
    distance: float = 0.5  # of actions, as a part of their spread
    verdicts: float = 0.05  # share that may differ


@dataclass(slots=True)
class WorkerTally:
    """What one worker has answered."""

    answers: int = 0
    failed: int = 0
    late: int = 0
    run_ms: float = 0.0  # together

    def count(self, failed: bool, late: bool, run_ms: float) -> None:
        self.answers += 1
        self.failed += failed
        self.late += late
        self.run_ms += run_ms

    def __str__(self) -> str:
        if not self.answers:
            return "no answers"
        mean_ms = self.run_ms / self.answers
        return f"{self.answers} answers, {self.failed} failed, {self.late} late, {mean_ms:.1f} ms each"


@dataclass(slots=True)
class _Sums:
    """Of one array of actions, by column."""

    steps: int
    old: np.ndarray
    squares: np.ndarray
    apart: np.ndarray  # squares of the differences


@dataclass(slots=True)
class Likeness:
    """How far the answers of new weights are from those of the old ones to the same calls."""

    actions: int = 0  # answers with actions
    verdicts: int = 0  # answers with a verdict
    other_verdicts: int = 0
    _sums: dict[str, _Sums] = field(default_factory=dict)

    def compare(self, old: Output, new: Output) -> None:
        """Raises `ValueError` where the new one has other arrays, or arrays of another shape."""
        shapes = [{name: array.shape for name, array in one.arrays.items()} for one in (old, new)]
        if shapes[0] != shapes[1] or len(shapes[0]) > MAX_ARRAYS:
            raise ValueError(f"expected arrays {shapes[0]}, got {shapes[1]}")
        self.actions += bool(shapes[0])
        # Others, such as the age of the observation, differ between two answers of the same weights.
        for name in (*chunks_in(old.arrays), *(old.arrays.keys() & {STEP})):
            self._add(name, _rows(old.arrays[name]), _rows(new.arrays[name]))
        if old.verdict:
            self.verdicts += 1
            self.other_verdicts += old.verdict != new.verdict

    def _add(self, name: str, old: np.ndarray, new: np.ndarray) -> None:
        """Rows: (steps, columns)."""
        sums = self._sums.get(name)
        if sums is None:
            zero = np.zeros(old.shape[1])
            sums = self._sums[name] = _Sums(0, zero, zero.copy(), zero.copy())
        if sums.old.shape != old.shape[1:]:
            raise ValueError(f"{name} has {old.shape[1]} columns, and had {sums.old.shape[0]}")
        sums.steps += len(old)
        sums.old += old.sum(0)
        sums.squares += (old * old).sum(0)
        sums.apart += ((new - old) ** 2).sum(0)

    @property
    def distance(self) -> float:
        """Root mean square of (new - old), each column as a part of the standard deviation of the old actions in it:
        0: equal; 1.4: as far apart as two actions at random. The farthest of the arrays."""
        return max((_distance(one) for one in self._sums.values()), default=0.0)

    def __str__(self) -> str:
        said = []
        if self.actions:
            said.append(f"distance of {self.actions} actions {self.distance:.3f} of their spread")
        if self.verdicts:
            said.append(f"{self.other_verdicts} of {self.verdicts} verdicts differ")
        return ", ".join(said) or "nothing to lay side by side"


def _rows(array: np.ndarray) -> np.ndarray:
    """(steps, columns), float64."""
    array = np.asarray(array, np.float64)
    return array.reshape(len(array), -1) if array.ndim > 1 else array.reshape(1, -1)


def _distance(sums: _Sums) -> float:
    if not sums.steps or not len(sums.old):
        return 0.0
    mean = sums.old / sums.steps
    variance = np.maximum(sums.squares / sums.steps - mean * mean, MIN_SPREAD**2)
    return math.sqrt(float(np.mean(sums.apart / sums.steps / variance)))


DEFAULT = TrialLimits()


def worse(new: WorkerTally, old: WorkerTally, limits: TrialLimits = DEFAULT) -> str:
    """Why the new weights are not taken over; empty where they are as good."""
    both = f"new: {new}; old: {old}"
    if new.answers < MIN_ANSWERS or old.answers < MIN_ANSWERS:
        return f"fewer than {MIN_ANSWERS} answers to compare ({both})"
    if new.failed / new.answers > old.failed / old.answers + limits.failed:
        return f"more calls fail ({both})"
    if new.late / new.answers > old.late / old.answers + limits.late:
        return f"more answers are late ({both})"
    if new.run_ms / new.answers > limits.slower * old.run_ms / old.answers + limits.slower_ms:
        return f"calls take longer ({both})"
    return ""


def unlike(likeness: Likeness, limits: TrialLimits) -> str:
    """Why the new weights act too differently; empty where they do not."""
    if likeness.distance > limits.distance:
        return f"actions differ by {likeness.distance:.3f} of their spread, over {limits.distance:g}"
    if likeness.other_verdicts > limits.verdicts * likeness.verdicts:
        return f"{likeness.other_verdicts} of {likeness.verdicts} verdicts differ"
    return ""
