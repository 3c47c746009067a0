"""The lanes whose models share one GPU, and which of them may give it a batch now.

Robots that were told to call have the GPU's next turn: their deadline runs from the call on, and a batch of another
model that came in between might be longer than that. So they are told only where their batch leaves all others in time,
and the GPU waits for their calls, no longer than robots take.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

from rosa_server.serving.core.dispatch.lane import Lane
from rosa_server.serving.core.workers.worker_state import SharedGpu
from rosa_server.timing.turns import Turn, leaves_in_time, whose_turn


@dataclass(eq=False)
class Turns:
    """Of one GPU."""

    gpu: SharedGpu = field(default_factory=SharedGpu)
    lanes: list[Lane] = field(default_factory=list)

    def next(self, now_s: float) -> tuple[Lane | None, float]:
        """Whose turn it is: nobody's while a batch runs or nothing waits, and while calls that are next are on their
        way; then also when to look again."""
        if self.gpu.busy:
            return None, inf
        lanes, turns = list[Lane](), list[Turn]()
        for lane in self.lanes:
            turn = lane.turn(now_s) or lane.coming(now_s)
            if turn is not None:
                lanes.append(lane)
                turns.append(turn)
        if not lanes:
            return None, inf
        lane = lanes[whose_turn(now_s, turns)]
        return (lane, inf) if lane.queue else (None, lane.rates.line.waited_for_s(now_s))

    def may_ask_s(self, now_s: float, lane: Lane) -> float:
        """From when on a lane may tell robots to call: now, or when one of the others is to be looked at again."""
        free_s, again_s = self.gpu.free_at_s(now_s), inf
        turns = list[Turn]()
        for other in self.lanes:
            if other is lane:
                continue
            turn = other.turn(now_s)
            if turn is None and (turn := other.coming(now_s)) is not None:
                again_s = min(again_s, other.rates.line.waited_for_s(now_s))
            if turn is not None:
                turns.append(turn)
        return now_s if leaves_in_time(free_s, lane.asked_runs_s, turns) else again_s
