"""The fallback ladder: what a robot does when a component misses its deadline or calls the scene unsafe.

Ordered by severity (ROSA 3.3, "Safety and SLO violations handling"): when several hold at once, the worst wins.
"""

from __future__ import annotations

from enum import IntEnum


class FallbackAction(IntEnum):
    """A fallback; a larger value is more severe."""

    USE_LAST_PLAN = 1
    STOP_AND_RESEND = 2
    STOP_AND_REPLAN = 3
    RETURN_TO_SAFE_STATE = 4
    STOP_AND_CALL_HUMAN = 5

    @property
    def key(self) -> str:
        """The name used in the configuration, such as `stop_and_resend`."""
        return self.name.lower()


FALLBACK_NAMES = tuple(action.key for action in FallbackAction)


def fallback(name: str) -> FallbackAction:
    """The fallback called `name` in the configuration; raises `KeyError` for an unknown one."""
    return FallbackAction[name.upper()]
