"""How a process ended, in words."""

from __future__ import annotations

import signal


def ending(status: int) -> str:
    """The exit status, or the signal that killed it (negative, as `subprocess` tells it)."""
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"ended by {signal.Signals(-status).name}"
    except ValueError:  # a real-time signal, most of which have no name
        return f"ended by signal {-status}"
