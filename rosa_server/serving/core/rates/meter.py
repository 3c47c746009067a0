"""Whether a robot keeps to its rate. Who does not is served with what is left: it costs nobody else a deadline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rosa_contract.config.tasks import GOAL_COUPLED

TOLERANCE_S = 0.05  # what a network delays one call and not the next
SPARE = 0.5  # periods beyond what a robot may make up for: its clock and ours begin at different calls


@dataclass(slots=True)
class RateMeter:
    """A token bucket for each goal-coupled component of one robot (GCRA). Pure: time is an argument."""

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
