"""A profile of one model that was measured with two engines."""

from __future__ import annotations

from rosa_server.scheduler.profiles.profile import (
    CONTINUOUS,
    SCHEMA,
    STATIC,
    Configuration,
    LatencyPoint,
    Profile,
    ServiceTime,
)


def configuration(engine: str, batching: str, batch: int, max_hz: float, ms: float) -> Configuration:
    """One that answers a request in `ms`, and in little more up to its highest rate."""
    points = tuple(
        LatencyPoint(rate, *(factor * ms for factor in (1.0, 1.0, 1.1, 1.2, 1.3, 1.4)))
        for rate in (max_hz / 10, max_hz)
    )
    return Configuration(batching, batch, max_hz, points, (ServiceTime(1, ms),), engine=engine)


PLAIN = configuration("plain", STATIC, 1, 10.0, 90.0)
PIPELINED = configuration("pipelined", CONTINUOUS, 7, 40.0, 150.0)
# Alone, a frame is answered sooner by the plain engine; the pipelined one answers four times as many.
TOKENS = Profile(SCHEMA, "tokens", "cpu", "measured", 100.0, 16_000.0, (PLAIN, PIPELINED))
