"""Refusals in tests: the cause is compared, the words are given back for the few tests that read them."""

from __future__ import annotations

from rosa_client.motion.refusal import Refusal


def because(cause: str, refusal: Refusal | None) -> str:
    """The words of a refusal that must have this cause."""
    assert refusal is not None, f"expected a refusal because of {cause}, got none"
    assert refusal.cause == cause, refusal
    return refusal.reason
