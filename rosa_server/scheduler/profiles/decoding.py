"""A model's profile on a machine that also decodes its pictures: what cores cannot hide is in every time.

A profile is measured with arrays. Where it says what the pictures of a request cost (`Profile.decoding`), planner,
prediction and simulator use it as this module makes it: batches take as long as the slower of model and decoding, and
each call's latency has the decoding of its own batch in it, as nothing hides that from the call itself.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from rosa_server.scheduler.profiles.profile import (
    CONTINUOUS,
    Configuration,
    Decoding,
    LatencyPoint,
    Profile,
    ServiceTime,
)
from rosa_server.timing.decoding import DecodeCost

BINDS = 1.005  # a batch that takes longer than this multiple of the model's time waits for its pictures


def cost_of(decoding: Decoding) -> DecodeCost | None:
    """None where nothing is known of it, or pictures come raw."""
    request_ms = sum(one.ms for one in decoding.cameras)
    return DecodeCost(request_ms, decoding.cores, decoding.model_cores) if request_ms else None


def with_decoding(profile: Profile) -> Profile:
    """The same model, whose requests come as JPEG."""
    cost = cost_of(profile.decoding)
    if cost is None:
        return profile
    slowed = tuple(_slowed(one, cost) for one in profile.configurations)
    return replace(profile, configurations=slowed, decoding=Decoding())  # it is in every time now


def _takes_ms(cost: DecodeCost, one: ServiceTime, batching: str) -> float:
    if batching != CONTINUOUS:
        return cost.takes_ms(one.size, one.ms)
    # Each call is decoded in a separate thread, beside those that run.
    return max(one.ms, (one.size * cost.request_ms + cost.model_cores * one.ms) / cost.cores)


def _slowed(configuration: Configuration, cost: DecodeCost) -> Configuration:
    service = tuple(
        ServiceTime(one.size, _takes_ms(cost, one, configuration.batching)) for one in configuration.service
    )
    own = {one.size: one.ms for one in configuration.service}
    largest = max(service, key=lambda one: one.size, default=None)
    factor = largest.ms / own[largest.size] if largest is not None else 1.0
    each_ms = largest.ms / largest.size if largest is not None else 0.0

    def point(known: LatencyPoint) -> LatencyPoint:
        rate_hz = known.rate_hz / factor
        # As many as come while one batch runs.
        together = ceil(min(configuration.batch, max(1.0, rate_hz * each_ms * configuration.batch / 1000)))
        if configuration.batching == CONTINUOUS:
            together = 1
        ahead_ms = cost.alone_ms(together)

        def ms(value: float) -> float:
            return value * factor + ahead_ms

        return LatencyPoint(
            rate_hz,
            ms(known.mean_ms),
            ms(known.p50_ms),
            ms(known.p90_ms),
            ms(known.p95_ms),
            ms(known.p99_ms),
            ms(known.p99_9_ms),
        )

    return replace(
        configuration,
        max_throughput_hz=configuration.max_throughput_hz / factor,
        latency=tuple(point(one) for one in configuration.latency),
        service=service,
    )


def bound_by_decoding(profile: Profile, batching: str, batch: int) -> tuple[float, float] | None:
    """(time of a batch, the model's own) in ms, where a batch of this configuration waits for its pictures; else None.

    `profile`: as measured.
    """
    cost = cost_of(profile.decoding)
    if cost is None:
        return None
    for configuration in profile.configurations:
        if (configuration.batching, configuration.batch) != (batching, batch):
            continue
        for one in configuration.service:
            if one.size == batch and (ms := _takes_ms(cost, one, batching)) > BINDS * one.ms:
                return ms, one.ms
    return None
