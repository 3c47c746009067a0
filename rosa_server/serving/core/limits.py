"""What connections may take of a gateway, and why one is cut off. docs/security.md shows both tables."""

from __future__ import annotations

from dataclasses import dataclass

CAUSES = {
    "too_many_connections": "more connections than one address, or the gateway, may have; the longest silent goes",
    "no_hello": "nothing understandable was said in time",
    "held_bytes": "more bytes came than whole messages: an endless message, or one larger than its model takes",
    "held_in_all": "all connections together hold too many bytes; the largest holder goes",
    "handling_time": "its messages took more of the gateway's time than one connection may have",
    "bad_messages": "too many messages that nobody can read",
    "address_waits": "its address was cut off before and has to wait",
    "key_revoked": "its key is no longer in the key folder",
}
OFFENCES = (
    "held_bytes",
    "held_in_all",
    "handling_time",
    "bad_messages",
)  # the address has to wait after these


@dataclass(frozen=True)
class Limits:
    """What connections may take. Bytes are those that the gateway's process holds and nobody has read."""

    connections: int = 4096  # in all
    connections_per_address: int = 3072
    silent: int = 2048  # of them, that have said nothing yet
    silent_per_address: int = 1024
    hello_within_s: float = 10.0  # a stranger says something understandable at least this often
    stranger_bytes: int = 256 << 10  # held by a stranger
    strangers_bytes: int = 8 << 20  # by all strangers
    welcomed_bytes: int = 256 << 10  # by a robot, beside two of its largest requests
    all_bytes: int = 64 << 20  # by all connections, beside one largest request of every robot
    robot_time: float = 0.25  # seconds of the gateway's time per second, of a robot
    robot_burst_s: float = 0.5
    address_time: float = 0.3  # of all strangers of one address
    address_burst_s: float = 0.6
    strangers_time: float = 0.4  # of all strangers
    strangers_burst_s: float = 0.8
    bad_per_s: float = 5.0  # unreadable messages of one connection
    bad_burst: float = 50.0
    first_wait_s: float = 1.0  # after the second offence of an address; doubles with each
    longest_wait_s: float = 60.0
    calm_after_s: float = 60.0  # an address without offence for so long starts afresh


def limits_for(descriptors: int, reserved: int = 256) -> Limits:
    """The limits that fit a process which may open so many descriptors; a connection takes two."""
    connections = max(16, min(Limits.connections, (descriptors - reserved) // 2))
    return Limits(
        connections=connections,
        connections_per_address=connections * 3 // 4,
        silent=connections // 2,
        silent_per_address=connections // 4,
    )


class Bucket:
    """Fills with `rate` per second up to `burst`; overdrawn when more was taken."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate, self._burst = rate, burst
        self._level, self._at_s = burst, 0.0

    def take(self, amount: float, now_s: float) -> bool:
        """Take it whatever is left. False when that is more than there was."""
        filled = self._level + max(0.0, now_s - self._at_s) * self._rate
        self._level = min(self._burst, filled) - amount
        self._at_s = now_s
        return self._level >= 0.0

    def give_back(self, amount: float) -> None:
        self._level = min(self._burst, self._level + amount)
