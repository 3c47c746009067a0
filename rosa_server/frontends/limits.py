"""What a frontend's clients may take of it. Pure: time is an argument. docs/frontends.md lists the numbers."""

from __future__ import annotations

MAX_PENDING = 64  # connections that have not finished their handshake; the oldest makes room
OPEN_S = 5.0  # for the handshake
NEW_PER_S = 50.0  # connections that are looked at; more are closed unread
NEW_AT_ONCE = 200.0
CLIENT_SHARE = 0.25  # s per s of the frontend's time on one client's messages; then it waits
CLIENT_BURST_S = 0.5
STRANGERS_SHARE = 0.3  # the same for all that never had an answer, together
STRANGERS_BURST_S = 0.6
UNREAD_S = 10.0  # an answer that is not taken for so long ends the connection
LINES_EVERY_S = 1.0


class Meter:
    """A token bucket that says how long to wait. `rate` per second, at most `burst` at once."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate, self._burst = rate, burst
        self._empty_s = float("-inf")  # when what was spent is made up for

    def spend(self, now_s: float, amount: float) -> None:
        """Take it, whatever is left."""
        self._empty_s = max(self._empty_s, now_s - self._burst / self._rate) + amount / self._rate

    def wait_s(self, now_s: float) -> float:
        """How long until there is something to take."""
        return max(0.0, self._empty_s - now_s)
