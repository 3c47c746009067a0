"""The latch of the emergency stop: anyone may press it, only a person who says who and why may release it.

It is software, not a certified safety function: docs/local_safety.md.
"""

from __future__ import annotations

from rosa_client.motion.refusal import Refusal

MAX_CHARS = 500  # of what a person enters
STOPPED = Refusal("emergency_stop", "the emergency stop is latched; release it first")


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

    def release(self, decided_by: str, why: str) -> Refusal | None:
        """Unlatch; returns why not. It moves nothing: what ran before is over.

        Causes: not_latched, missing_text, text_too_long.
        """
        if not self.latched:
            return Refusal("not_latched", "no emergency stop is latched")
        for name, text in (("decided_by", decided_by), ("why", why)):
            if not text.strip():
                reason = f"{name} is empty; an emergency stop is released by a person who says who and why"
                return Refusal("missing_text", reason)
            if len(text) > MAX_CHARS:
                reason = f"{name} has {len(text)} characters; expected at most {MAX_CHARS}"
                return Refusal("text_too_long", reason)
        self.pressed_by = ""
        return None
