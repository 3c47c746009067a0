"""Which calls run only when nothing else waits: those of a robot over its rate, and over its share of decoding.

Such a robot is served with what is left, so it costs nobody else a deadline. Pure: time is an argument.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rosa_contract.config.tasks import GOAL_COUPLED

TOLERANCE_S = 0.05  # what a network delays one call and not the next
SPARE = 0.5  # periods beyond what a robot may make up for: its clock and ours begin at different calls

DECODING_SHARE = 0.25  # CPU seconds per second, as for a robot's messages at the gateway
DECODING_BURST_S = 0.5  # CPU seconds at once
RECOVERS_IN_S = 10.0  # after its last dear picture a robot is as any other
MAX_DEBT_S = DECODING_BURST_S + DECODING_SHARE * RECOVERS_IN_S


@dataclass(slots=True)
class RateMeter:
    """A token bucket for each goal-coupled component of one robot (GCRA)."""

    _turns_s: dict[str, float] = field(
        default_factory=dict
    )  # component -> when its next call is due at its rate

    def permitted(
        self, now_s: float, component: str, rates_hz: Mapping[str, float], pace: float = 1.0
    ) -> None:
        """A call has come with a permit: its next turn is one period later."""
        if rates_hz.get(component, 0.0) > 0:
            self._turns_s[component] = now_s + 1 / (rates_hz[component] * pace)

    def over(
        self, now_s: float, component: str, rates_hz: Mapping[str, float], pace: float, catch_up: float
    ) -> bool:
        """Whether a call that comes now is over the rate, which is `pace` times that of the schedule.

        A call over the rate spends nothing: who sends twice as often as allowed has every other call within it.
        """
        rate_hz = rates_hz.get(component, 0.0) * pace if component in GOAL_COUPLED else 0.0
        if rate_hz <= 0:
            return False
        period_s = 1 / rate_hz
        early_s = (catch_up + SPARE) * period_s + TOLERANCE_S
        # However it came to that, nobody's turn is further ahead than one call that was just in time puts it.
        turn_s = min(self._turns_s.get(component, now_s), now_s + early_s + period_s)
        if now_s < turn_s - early_s:
            return True
        self._turns_s[component] = max(turn_s, now_s) + period_s
        return False


class DecodeBudget:
    """What robots owe for the decoding of their pictures, by name: a leaky bucket each.

    Decoding happens before a batch begins, in a worker that serves other robots too. What a picture may cost is bounded
    (`rosa_contract/wire`), but an encoder can choose the dear end of that, so each robot pays for its own: CPU time as
    the worker measured it, whatever else the machine does.
    """

    def __init__(self) -> None:
        self._debts: dict[str, tuple[float, float]] = {}  # robot -> (CPU seconds, when that was so)

    def charge(self, now_s: float, robot_id: str, seconds: float) -> bool:
        """A worker has decoded for this robot. True when it is over its share now and was not before."""
        before = self._debt_s(now_s, robot_id)
        after = min(MAX_DEBT_S, before + seconds)
        self._debts[robot_id] = after, now_s
        return before <= DECODING_BURST_S < after

    def over(self, now_s: float, robot_id: str) -> bool:
        """Whether this robot's calls have to wait for everybody else's."""
        return bool(self._debts) and self._debt_s(now_s, robot_id) > DECODING_BURST_S

    def sweep(self, now_s: float) -> None:
        """Forget who owes nothing any more."""
        for robot_id in [name for name in self._debts if not self._debt_s(now_s, name)]:
            del self._debts[robot_id]

    def _debt_s(self, now_s: float, robot_id: str) -> float:
        debt_s, since_s = self._debts.get(robot_id, (0.0, now_s))
        return max(0.0, debt_s - DECODING_SHARE * (now_s - since_s))
