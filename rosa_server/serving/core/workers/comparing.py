"""Whether new weights do as well as the old ones: what both workers have answered in the same time, and a rule.

Pure. Both take calls from one queue, so that both see the same robots, load and network.
"""

from __future__ import annotations

from dataclasses import dataclass

MIN_ANSWERS = 20  # of each; fewer say nothing
MORE_FAILED, MORE_LATE = 0.02, 0.05  # shares of its answers that the new one may have more
SLOWER, SLOWER_MS = 1.5, 5.0  # a call may run so many times as long, and so much more


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


def worse(new: WorkerTally, old: WorkerTally) -> str:
    """Why the new weights are not taken over; empty where they are as good."""
    both = f"new: {new}; old: {old}"
    if new.answers < MIN_ANSWERS or old.answers < MIN_ANSWERS:
        return f"fewer than {MIN_ANSWERS} answers to compare ({both})"
    if new.failed / new.answers > old.failed / old.answers + MORE_FAILED:
        return f"more calls fail ({both})"
    if new.late / new.answers > old.late / old.answers + MORE_LATE:
        return f"more answers are late ({both})"
    if new.run_ms / new.answers > SLOWER * old.run_ms / old.answers + SLOWER_MS:
        return f"calls take longer ({both})"
    return ""
