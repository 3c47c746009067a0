"""What a frontend's clients may take of it. Pure: time is an argument. docs/frontends.md lists the numbers."""

from __future__ import annotations

MAX_PENDING = 64  # connections that have not finished their handshake; the oldest makes room
OPEN_S = 5.0  # for the handshake
NEW_PER_S = 50.0  # connections of one address that are looked at; more are closed unread
NEW_AT_ONCE = 200.0
ALL_NEW_PER_S = 200.0  # of all addresses
ALL_NEW_AT_ONCE = 400.0
MAX_ADDRESSES = 1024  # that are remembered
CLIENT_SHARE = 0.25  # s per s of the frontend's time on one client's messages; then it waits
CLIENT_BURST_S = 0.5
STRANGERS_SHARE = 0.3  # the same for all that never had an answer, together
STRANGERS_BURST_S = 0.6
BESIDE_SHARE = 0.01  # s per s on what belongs to no message of a connection, such as pings; it ends with more
BESIDE_BURST_S = 0.25
BESIDE_S_PER_MB = 0.01  # more, for each MB that a message may have
NEW_ROBOTS_PER_S = 20.0  # that strangers become at the gateway, after one for each of `max_clients`
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


class Entrance:
    """Which new connections are looked at, and which has to make room. Pure; a shell ends those that are returned."""

    def __init__(self) -> None:
        self._all = Meter(ALL_NEW_PER_S, ALL_NEW_AT_ONCE)
        self._of_address: dict[str, Meter] = {}
        self._pending: dict[
            object, object
        ] = {}  # connections in their handshake by their peer, the oldest first

    def accepted(self, now_s: float, connection: object, peer: object) -> tuple[object | None, str]:
        """A connection was accepted from `peer` (an address first): the one that has to end now, if any, and why."""
        address = str(peer[0]) if isinstance(peer, tuple) and peer else ""
        own = self._of_address.pop(address, None) or Meter(NEW_PER_S, NEW_AT_ONCE)
        self._of_address[address] = own  # the one heard of last
        if len(self._of_address) > MAX_ADDRESSES:
            del self._of_address[next(iter(self._of_address))]
        if max(own.wait_s(now_s), self._all.wait_s(now_s)) > 0:
            return connection, "too many new connections per second"
        own.spend(now_s, 1.0)
        self._all.spend(now_s, 1.0)
        self._pending.pop(peer, None)  # one that has ended without a word
        self._pending[peer] = connection
        if len(self._pending) <= MAX_PENDING:
            return None, ""
        return self._pending.pop(next(iter(self._pending))), "too many connections in their handshake"

    def passed(self, peer: object) -> None:
        """The handshake of the connection from this peer is over, however it ended."""
        self._pending.pop(peer, None)
