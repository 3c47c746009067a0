"""Who makes the workers decode: a robot whose pictures take more than its share runs when nothing else waits.

Decoding happens before a batch begins, in a worker that serves other robots too. What a picture may cost is bounded
(`rosa_contract/wire`), but an encoder can choose the dear end of that, so each robot pays for its own: CPU time as the
worker measured it, whatever else the machine does.
"""

from __future__ import annotations

SHARE = 0.25  # CPU seconds per second, as for a robot's messages at the gateway
BURST_S = 0.5  # CPU seconds at once
RECOVERS_IN_S = 10.0  # after its last dear picture a robot is as any other
MAX_DEBT_S = BURST_S + SHARE * RECOVERS_IN_S


class DecodeBudget:
    """What robots owe, by name: a leaky bucket each. Pure: time is an argument."""

    def __init__(self) -> None:
        self._debts: dict[str, tuple[float, float]] = {}  # robot -> (CPU seconds, when that was so)

    def charge(self, now_s: float, robot_id: str, seconds: float) -> bool:
        """A worker has decoded for this robot. True when it is over its share now and was not before."""
        before = self._debt_s(now_s, robot_id)
        after = min(MAX_DEBT_S, before + seconds)
        self._debts[robot_id] = after, now_s
        return before <= BURST_S < after

    def over(self, now_s: float, robot_id: str) -> bool:
        """Whether this robot's calls have to wait for everybody else's."""
        return bool(self._debts) and self._debt_s(now_s, robot_id) > BURST_S

    def sweep(self, now_s: float) -> None:
        """Forget who owes nothing any more."""
        for robot_id in [name for name in self._debts if not self._debt_s(now_s, name)]:
            del self._debts[robot_id]

    def _debt_s(self, now_s: float, robot_id: str) -> float:
        debt_s, since_s = self._debts.get(robot_id, (0.0, now_s))
        return max(0.0, debt_s - SHARE * (now_s - since_s))
