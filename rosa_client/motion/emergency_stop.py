"""The latch of the emergency stop: anyone may press it, only a person who says who and why may release it.

It is software, not a certified safety function: docs/local_safety.md.
"""

from __future__ import annotations

MAX_CHARS = 500  # of what a person enters
REFUSAL = "the emergency stop is latched; release it first"


class EmergencyStop:
    """Latched from the first press to an accepted release."""

    def __init__(self) -> None:
        self.pressed_by = ""  # what pressed it first; empty while it is not latched

    @property
    def latched(self) -> bool:
        return bool(self.pressed_by)

    def press(self, source: str) -> bool:
        """Latch; returns whether it was not latched before."""
        fresh = not self.latched
        if fresh:
            self.pressed_by = source or "unknown"
        return fresh

    def release(self, decided_by: str, why: str) -> str:
        """Unlatch; returns why not, or the empty text. It moves nothing: what ran before is over."""
        if not self.latched:
            return "no emergency stop is latched"
        for name, text in (("decided_by", decided_by), ("why", why)):
            if not text.strip():
                return f"{name} is empty; an emergency stop is released by a person who says who and why"
            if len(text) > MAX_CHARS:
                return f"{name} has {len(text)} characters; expected at most {MAX_CHARS}"
        self.pressed_by = ""
        return ""
