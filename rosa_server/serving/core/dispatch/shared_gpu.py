"""The lanes whose models share one GPU, and which of them may give it a batch now."""

from __future__ import annotations

from dataclasses import dataclass, field

from rosa_server.serving.core.dispatch.lane import Lane
from rosa_server.serving.core.workers.worker_state import SharedGpu
from rosa_server.timing.turns import whose_turn


@dataclass(eq=False)
class Turns:
    """Of one GPU."""

    gpu: SharedGpu = field(default_factory=SharedGpu)
    lanes: list[Lane] = field(default_factory=list)

    def next(self, now_s: float) -> Lane | None:
        """Whose turn it is; nobody's while a batch runs, or nothing waits."""
        if self.gpu.busy:
            return None
        found = [(lane, turn) for lane in self.lanes if (turn := lane.turn(now_s)) is not None]
        return found[whose_turn(now_s, [turn for _, turn in found])][0] if found else None
