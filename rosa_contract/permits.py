"""How long a robot waits for the server's permit, and how long it believes what the server said (docs/rates.md)."""

from __future__ import annotations

ASK_PERMIT_EVERY_S = 0.5
# Without a permit a robot calls when it has waited so long and has its turn at the schedule's rate, or has waited for
# longest: its deadline and fallback take over then. Where servers are full and its turns are further apart, a call
# without a permit would only be late, and make others late.
MIN_WAIT_FOR_PERMIT_S, MAX_WAIT_FOR_PERMIT_S = 0.25, 8.0
PACE_HOLDS_S = 3.0  # how long a response's pace counts
