"""What strangers may take of a port for workers or gateways of other machines, which needs keys."""

from __future__ import annotations

from rosa_server.serving.core.guard.limits import Limits

MAX_STRANGERS = 64
# A worker that was cut off announces itself again when its batch has ended. Endless handshakes are cut off earlier.
HELLO_WITHIN_S = 60.0


def keyed_port_limits() -> Limits:
    """A peer that has spoken with a valid key is no stranger: a worker is bounded by its credits."""
    return Limits(
        connections=2 * MAX_STRANGERS,
        connections_per_address=2 * MAX_STRANGERS,
        strangers=MAX_STRANGERS,
        strangers_per_address=MAX_STRANGERS,
        hello_within_s=HELLO_WITHIN_S,
    )
