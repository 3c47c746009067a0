"""The queues whose models share one GPU, and which of them may give it a batch now."""

from __future__ import annotations

from dataclasses import dataclass, field

from rosa_server.serving.core.dispatch.replica import ReplicaState
from rosa_server.serving.core.workers.pool import WorkerPool
from rosa_server.serving.core.workers.worker_state import Lane
from rosa_server.timing.turns import whose_turn


@dataclass(eq=False)
class Turns:
    """Of one GPU."""

    lane: Lane = field(default_factory=Lane)
    states: list[ReplicaState] = field(default_factory=list)

    def next(self, now_s: float, pool: WorkerPool) -> ReplicaState | None:
        """Whose turn it is; nobody's while a batch runs, or nothing waits."""
        if self.lane.busy:
            return None
        found = [(state, turn) for state in self.states if (turn := state.turn(now_s, pool)) is not None]
        return found[whose_turn(now_s, [turn for _, turn in found])][0] if found else None
