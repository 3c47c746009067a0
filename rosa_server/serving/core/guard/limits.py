"""What connections may use of a gateway, and why one is cut off. docs/security.md shows both tables.

A limit is a field of `Limits` with its row of the table; a new one needs a test that exceeds it, or
`tests/unit/server/serving/core/guard/test_limits.py` fails.
"""

from __future__ import annotations

from dataclasses import Field, dataclass, field, fields
from typing import Any

CAUSES = {
    "too_many_connections": "one address, or the gateway, has too many connections; the one silent longest is closed",
    "no_hello": "no valid message came in time",
    "held_bytes": "too many bytes of an incomplete message: it has no end, or is larger than its model takes",
    "held_in_all": "all connections together hold too many bytes; the one that holds most is closed",
    "unread_answers": "the peer asks and does not read; its answers are dropped",
    "not_reading": "the peer has read none of its answers for too long, as behind a broken link",
    "unread_in_all": "all connections together leave too many bytes unread; the one with most is closed",
    "handling_time": "its messages took more of the gateway's CPU time than one connection may use",
    "bad_messages": "too many invalid messages",
    "address_waits": "its address was cut off before and still has to wait",
    "key_revoked": "its key is no longer in the key folder",
    "too_old": "too many connections were opened after it, so its number is about to be reused",
}
# The address has to wait after these.
UNREAD = ("unread_answers", "unread_in_all", "not_reading")  # whoever is cut off for these reads nothing
OFFENCES = ("held_bytes", "held_in_all", "unread_answers", "unread_in_all", "handling_time", "bad_messages")


def limit(default: float, unit: str, what: str, of: str, cause: str) -> Any:
    """A field of `Limits`: a row of the table, and the cause with which a connection that exceeds it is cut off."""
    return field(default=default, metadata={"unit": unit, "what": what, "of": of, "cause": cause})


@dataclass(frozen=True)
class Limits:
    """What connections may use. A *stranger* has connected and was not welcomed, a *robot* was.

    Held bytes are those that the gateway's process has received and that are no whole message yet; unread ones are
    those of answers that the peer has not taken.
    """

    connections: int = limit(4096, "", "connections", "all", "too_many_connections")
    connections_per_address: int = limit(3072, "", "connections", "one address", "too_many_connections")
    strangers: int = limit(
        2048, "", "connections", "all strangers; the one silent longest is closed", "too_many_connections"
    )
    strangers_per_address: int = limit(
        1024, "", "connections", "strangers from one address", "too_many_connections"
    )
    successors: int = limit(1 << 31, "", "connections opened after it", "a connection", "too_old")
    hello_within_s: float = limit(10.0, "s", "time without a valid message", "a stranger", "no_hello")
    stranger_bytes: int = limit(256 << 10, "KB", "bytes held", "a stranger", "held_bytes")
    strangers_bytes: int = limit(8 << 20, "MB", "bytes held", "all strangers", "held_in_all")
    welcomed_bytes: int = limit(
        256 << 10, "KB", "bytes held, in addition to two of its largest requests", "a robot", "held_bytes"
    )
    all_bytes: int = limit(
        64 << 20, "MB", "bytes held, in addition to one largest request per robot", "all", "held_in_all"
    )
    stranger_unread: int = limit(64 << 10, "KB", "bytes of unread answers", "a stranger", "unread_answers")
    robot_unread: int = limit(4 << 20, "MB", "bytes of unread answers", "a robot", "unread_answers")
    all_unread: int = limit(64 << 20, "MB", "bytes of unread answers", "all", "unread_in_all")
    unread_for_s: float = limit(10.0, "s", "time without reading any answer", "a connection", "not_reading")
    robot_time: float = limit(0.25, "s/s", "handling time", "a robot", "handling_time")
    robot_burst_s: float = limit(0.5, "s", "handling time, burst", "a robot", "handling_time")
    address_time: float = limit(
        0.3, "s/s", "handling time", "all strangers from one address", "handling_time"
    )
    address_burst_s: float = limit(
        0.6, "s", "handling time, burst", "all strangers from one address", "handling_time"
    )
    strangers_time: float = limit(0.4, "s/s", "handling time", "all strangers", "handling_time")
    strangers_burst_s: float = limit(0.8, "s", "handling time, burst", "all strangers", "handling_time")
    bad_per_s: float = limit(5.0, "/s", "invalid messages", "a connection", "bad_messages")
    bad_burst: float = limit(50.0, "", "invalid messages, burst", "a connection", "bad_messages")
    # Of the wait after the second offence of an address, which doubles with each further one.
    first_wait_s: float = limit(
        1.0, "s", "time before it may connect again after its second offence", "an address", "address_waits"
    )
    longest_wait_s: float = limit(60.0, "s", "the same after many offences", "an address", "address_waits")
    calm_after_s: float = limit(
        60.0, "s", "time without offences after which they are forgotten", "an address", "address_waits"
    )


def rows() -> list[Field[Any]]:
    """The limits, each with its row's cells as `metadata`."""
    return list(fields(Limits))


def shown(value: float, unit: str) -> str:
    """A limit as the table shows it."""
    scale = {"KB": 1 << 10, "MB": 1 << 20}.get(unit, 1)
    return (
        f"{value / scale:.10g} {unit}".strip().replace(" s/s", " s per second").replace(" /s", " per second")
    )


def limits_for(descriptors: int, reserved: int = 256) -> Limits:
    """The limits that fit a process which may open this many descriptors; a connection takes two."""
    connections = max(16, min(Limits.connections, (descriptors - reserved) // 2))
    return Limits(
        connections=connections,
        connections_per_address=connections * 3 // 4,
        strangers=connections // 2,
        strangers_per_address=connections // 4,
    )
