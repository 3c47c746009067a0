"""Measuring a backend that batches continuously by itself: calls of one request each, several at a time.

What a batch size is elsewhere is here the number of calls under way. `S(n)`, the time of a call while `n` callers each
send the next as soon as they are answered, is what `timing/continuous.py` reckons with. Latency under load is
measured open-loop, as for batches; calls beyond `at_once` wait, as they do at the gateway.

What the prompt of a new call costs those that run cannot be read off `S(n)`, in which prompts and shared steps both
grow with `n`. A second call that begins shortly before the first one ends tells them apart: it leaves the first one
little to share, and holds it up by its whole prompt.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from random import Random
from statistics import median

import numpy as np

from rosa_server.models.backend import Backend, ModelInput, capabilities_of
from rosa_server.scheduler.profiles.measure import (
    RATE_SHARES,
    Clock,
    Sleep,
    random_input,
    service_runs,
)
from rosa_server.scheduler.profiles.profile import CONTINUOUS, Configuration, LatencyPoint, ServiceTime
from rosa_server.scheduler.profiles.queueing import poisson_arrivals_ms, summarise

JOINS_AT = (0.7, 0.8)  # of the time of a call alone: when the second one begins
BISECTIONS = 40
PAIRS = 20  # of calls about one observation, at least: what the second one saves may be a small share


def sizes_of(at_once: int) -> list[int]:
    """The numbers of calls under way whose time is measured; the largest last."""
    return sorted({size for size in (1, 2, 4, 8, 16, 32) if size < at_once} | {at_once})


def measure_continuous(
    backend: Backend,
    at_once: int,
    component: str,
    requests: int,
    clock: Clock,
    sleep: Sleep,
    callers: Executor,
    engine: str = "",
) -> Iterator[tuple[float, LatencyPoint] | Configuration]:
    """Yields (share of the maximum, point) after each measured rate, and the configuration at the end.

    `callers`: runs `at_once` calls at a time. The maximum throughput is `at_once / S(at_once)`.
    """
    sample = random_input(
        capabilities_of(backend).nominal or backend.input_spec, component, np.random.default_rng(0)
    )
    service = tuple(
        ServiceTime(size, _service_ms(backend, sample, size, service_runs(requests), clock, callers))
        for size in sizes_of(at_once)
    )
    maximum_hz = 1000 * at_once / service[-1].ms
    points = []
    for share in RATE_SHARES:
        rate_hz = maximum_hz * share
        latencies_ms = _open_loop(
            backend, sample, rate_hz, requests, round(share * 100), clock, sleep, callers
        )
        points.append(summarise(rate_hz, latencies_ms))
        yield share, points[-1]
    prompt_ms = _prefill_ms(backend, sample, service, service_runs(requests), clock, sleep, callers)
    shared = _prefix_share(backend, sample, max(PAIRS, service_runs(requests)), clock)
    yield Configuration(
        CONTINUOUS,
        at_once,
        maximum_hz,
        tuple(points),
        service,
        engine=engine,
        prefix_share=shared,
        prefill_ms=prompt_ms,
    )


def prompt_ms(alone_ms: float, two_ms: float, joined_ms: float, took_ms: float) -> float:
    """Time P of a prompt, where a call takes `alone_ms` by itself and `two_ms` beside another that goes on and on, and
    has taken `took_ms` beside one that began `joined_ms` after it.

    Since then it has waited for P and decoded the rest, of which it gets `1 / (two_ms - 2 P)` in a ms instead of
    `1 / (alone_ms - P)`. 0 where it was not held up.
    """

    def left_over_ms(prompt: float) -> float:
        rest = (alone_ms - joined_ms) / (alone_ms - prompt)
        return took_ms - joined_ms - prompt - rest * (two_ms - 2 * prompt)

    low, high = 0.0, 0.95 * min(alone_ms, two_ms / 2, joined_ms)
    if left_over_ms(low) <= 0:
        return 0.0
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if left_over_ms(middle) > 0 else (low, middle)
    return low


def _prefill_ms(
    backend: Backend,
    sample: ModelInput,
    service: Sequence[ServiceTime],
    runs: int,
    clock: Clock,
    sleep: Sleep,
    callers: Executor,
) -> float:
    """The median over pairs of calls of which the second begins late in the first."""
    times_ms = {one.size: one.ms for one in service}
    alone_ms, two_ms = times_ms[1], times_ms[2]
    found = []
    for share in JOINS_AT:
        for _ in range(runs):
            begin = clock()

            def ended_ms(begin: float = begin) -> float:
                backend.infer([sample])
                return 1000 * (clock() - begin)

            first = callers.submit(ended_ms)
            sleep(share * alone_ms / 1000)
            joined_ms = 1000 * (clock() - begin)
            second = callers.submit(backend.infer, [sample])
            took_ms = first.result()
            second.result()
            if joined_ms < min(alone_ms, took_ms):  # else the first one had ended, or was about to
                found.append(prompt_ms(alone_ms, two_ms, joined_ms, took_ms))
    return median(found) if found else 0.0


def _prefix_share(backend: Backend, sample: ModelInput, runs: int, clock: Clock) -> float:
    """The share of its time that a call saves when another call has just asked about the same observation.

    0 for a backend that shares nothing.
    """
    if not capabilities_of(backend).shares:
        return 0.0
    first_s, second_s = 0.0, 0.0
    for run in range(runs):
        named = replace(sample, observation=f"profile:{run}")
        began = clock()
        backend.infer([named])
        between = clock()
        backend.infer([named])
        first_s, second_s = first_s + between - began, second_s + clock() - between
    return min(0.99, max(0.0, 1 - second_s / first_s)) if first_s > 0 else 0.0


def _service_ms(
    backend: Backend, sample: ModelInput, size: int, runs: int, clock: Clock, callers: Executor
) -> float:
    """Mean time of a call while `size` callers call again and again; one call of each first does not count."""

    def call(times: int) -> None:
        for _ in range(times):
            backend.infer([sample])

    def all_call(times: int) -> float:
        begin = clock()
        for one in [callers.submit(call, times) for _ in range(size)]:
            one.result()
        return clock() - begin

    all_call(1)
    return max(1e-3, 1000 * all_call(runs) / runs)


def _open_loop(
    backend: Backend,
    sample: ModelInput,
    rate_hz: float,
    requests: int,
    seed: int,
    clock: Clock,
    sleep: Sleep,
    callers: Executor,
) -> list[float]:
    """Latencies of Poisson arrivals, ms, in the order of arrival."""
    begin = clock()

    def call(arrival_ms: float) -> float:
        backend.infer([sample])
        return max(1e-3, 1000 * (clock() - begin) - arrival_ms)

    calls = []
    for arrival_ms in poisson_arrivals_ms(rate_hz, requests, Random(seed)):
        ahead_ms = arrival_ms - 1000 * (clock() - begin)
        if ahead_ms > 0:
            sleep(ahead_ms / 1000)
        calls.append(callers.submit(call, arrival_ms))
    return [one.result() for one in calls]
