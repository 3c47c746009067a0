"""Measuring a backend: service times, maximum throughput, and latency at ten open-loop request rates (ROSA 3.4.2).

Arrival times are drawn beforehand and latency counts from them, so a backend that falls behind is charged for the whole
wait. One thread is enough: arrivals need no work while a batch runs. Time comes from `clock` and `sleep`.

Service times set the rates, so both must come from the same machine under the same conditions. When runs at some rate
take much longer or shorter than the service times, something else used the machine, or the measurement was interrupted
and resumed under other conditions: the configuration is then measured again from its start. A single point far above
one of a higher rate was disturbed, and is measured again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import inf
from pathlib import Path
from random import Random
from statistics import median

import numpy as np

from rosa_server.models.backend import Backend, InputSpec, ModelInput, capabilities_of
from rosa_server.scheduler.profiles.profile import DYNAMIC, STATIC, Configuration, LatencyPoint, ServiceTime
from rosa_server.scheduler.profiles.queueing import poisson_arrivals_ms, summarise

RATE_SHARES = tuple(step / 10 for step in range(1, 11))
STEADY = 2.0  # a run may take this many times longer or shorter: caches and clocks cool down between requests
ATTEMPTS = 3
# Times the p99 of a higher rate. Arrivals are random, so a p99 of few requests may fall a little as the rate rises.
DISTURBED = 1.5
Clock = Callable[[], float]
Sleep = Callable[[float], None]


class UnsteadyMachine(RuntimeError):
    """Runs under load do not match the service times; the message says where and what to do."""


@dataclass(frozen=True)
class Batching:
    """One way to batch, whose configuration is measured."""

    kind: str  # static or dynamic
    batch: int

    @property
    def key(self) -> str:
        return f"{self.kind}-{self.batch}"

    @property
    def sizes(self) -> list[int]:
        """Batch sizes whose service time is measured; the largest last."""
        if self.kind == STATIC:
            return [self.batch]
        return sorted({size for size in (1, 2, 4, 8, 16, 32, 64) if size < self.batch} | {self.batch})


@dataclass
class Progress:
    """What has been measured of one profile so far, by the key of a batching. A measurement resumes from its file."""

    service_ms: dict[str, dict[int, float]] = field(default_factory=dict)  # batch size -> mean time of a run
    # Share of the maximum throughput -> point.
    points: dict[str, dict[float, LatencyPoint]] = field(default_factory=dict)
    how: str = (
        ""  # which model, and with which options: what was measured in another way is no part of the profile
    )

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")

    @classmethod
    def load(cls, path: Path, how: str = "") -> Progress:
        """What `save` wrote; empty for a missing or damaged file, and for one of what was measured in another way."""
        try:
            plain = json.loads(path.read_text(encoding="utf-8"))
            if plain["how"] != how:
                return cls(how=how)
            return cls(
                {
                    key: {int(n): float(ms) for n, ms in times.items()}
                    for key, times in plain["service_ms"].items()
                },
                {
                    key: {float(share): LatencyPoint(**point) for share, point in points.items()}
                    for key, points in plain["points"].items()
                },
                how,
            )
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return cls(how=how)


def batchings(batches: Sequence[int], max_batch: int) -> list[Batching]:
    """Batch one, and for every larger batch both padded and dynamic batching."""
    sizes = sorted({size for size in batches if 1 < size <= max_batch})
    return [Batching(STATIC, 1)] + [Batching(kind, size) for size in sizes for kind in (STATIC, DYNAMIC)]


def random_input(spec: InputSpec, component: str, rng: np.random.Generator) -> ModelInput:
    """An input of the declared shapes: noise images, small states."""
    images = {name: rng.integers(0, 256, (h, w, 3), dtype=np.uint8) for name, (h, w) in spec.images.items()}
    state = {name: rng.uniform(-0.1, 0.1, length).astype(np.float32) for name, length in spec.state.items()}
    return ModelInput(component, "profile", images, state)


def service_runs(requests: int) -> int:
    """How many runs a service time is the mean of, where each rate is measured with `requests` requests."""
    return max(3, requests // 20)


def service_times_ms(
    backend: Backend, inputs: Sequence[ModelInput], sizes: Sequence[int], runs: int, clock: Clock
) -> dict[int, float]:
    """Mean time of one run by batch size, of the first of `inputs`; the first run of each size is warm-up."""
    times = {}
    for size in sizes:
        batch = inputs[:size]
        backend.infer(batch)
        begin = clock()
        for _ in range(runs):
            backend.infer(batch)
        times[size] = max(1e-3, 1000 * (clock() - begin) / runs)
    return times


@dataclass(frozen=True)
class OpenLoop:
    """What was measured at one rate."""

    latencies_ms: list[float]  # in order of answering
    runs: list[tuple[int, float]]  # batch size and time of each run, ms


def open_loop(
    backend: Backend,
    inputs: Sequence[ModelInput],
    batching: Batching,
    rate_hz: float,
    requests: int,
    seed: int,
    clock: Clock,
    sleep: Sleep,
) -> OpenLoop:
    """`requests` Poisson arrivals on one worker, each batch the first of `inputs`."""
    arrivals = poisson_arrivals_ms(rate_hz, requests, Random(seed))
    begin = clock()
    found = OpenLoop([], [])
    first = 0
    while first < requests:
        now = 1000 * (clock() - begin)
        if arrivals[first] > now:
            sleep(max(1e-6, (arrivals[first] - now) / 1000))  # rounding must not stop a clock
            continue
        last = first + 1
        while last < requests and last - first < batching.batch and arrivals[last] <= now:
            last += 1
        size = batching.batch if batching.kind == STATIC else last - first
        backend.infer(inputs[:size])
        done = 1000 * (clock() - begin)
        found.runs.append((size, done - now))
        found.latencies_ms.extend(max(1e-3, done - arrival) for arrival in arrivals[first:last])
        first = last
    return found


def slowdown(runs: Sequence[tuple[int, float]], service_ms: dict[int, float]) -> float:
    """How many times longer than its service time the median run took; sizes in between are interpolated."""
    sizes = sorted(service_ms)
    times = [service_ms[size] for size in sizes]
    return median(ms / float(np.interp(size, sizes, times)) for size, ms in runs)


def disturbed(points: Mapping[float, LatencyPoint]) -> list[float]:
    """The loads (shares or rates) whose p99 is over `DISTURBED` times that of a higher one: less load waits less."""
    found: list[float] = []
    min_ms = inf
    for load in sorted(points, reverse=True):
        if points[load].p99_ms > DISTURBED * min_ms:
            found.append(load)
        min_ms = min(min_ms, points[load].p99_ms)
    return found[::-1]


def measure_batching(
    backend: Backend,
    batching: Batching,
    component: str,
    requests: int,
    clock: Clock,
    sleep: Sleep,
    progress: Progress,
    name_component: bool = True,
) -> Iterator[tuple[float, LatencyPoint] | Configuration]:
    """Yields (share of the maximum, point) after each measured rate, and the finished configuration at the end.

    What `progress` holds is not measured again; it is kept up to date. Rates are shares of the maximum throughput, the
    largest batch / its service time. Raises `UnsteadyMachine` when runs under load never match the service times.
    """
    spec, rng = capabilities_of(backend).nominal or backend.input_spec, np.random.default_rng(0)
    # Of as many robots: a model that sees equal observations once would be quicker with copies of one.
    inputs = [random_input(spec, component, rng) for _ in range(batching.batch)]
    reasons: list[str] = []

    def run(rate_hz: float, share: float) -> OpenLoop:
        return open_loop(backend, inputs, batching, rate_hz, requests, round(share * 100), clock, sleep)

    while len(reasons) < ATTEMPTS:
        if batching.key not in progress.service_ms:
            times = service_times_ms(backend, inputs, batching.sizes, service_runs(requests), clock)
            progress.service_ms[batching.key], progress.points[batching.key] = times, {}
        times, points = progress.service_ms[batching.key], progress.points[batching.key]
        maximum_hz = 1000 * batching.batch / times[batching.batch]
        for share in RATE_SHARES:
            if share in points:
                continue
            rate_hz = maximum_hz * share
            found = run(rate_hz, share)
            factor = slowdown(found.runs, times)
            if not 1 / STEADY <= factor <= STEADY:
                reasons.append(f"at {rate_hz:.3g} req/s a run took {factor:.2g} times its service time")
                del progress.service_ms[batching.key]
                break
            points[share] = summarise(rate_hz, found.latencies_ms)
            yield share, points[share]
        else:
            for _ in range(ATTEMPTS - 1):
                for share in disturbed(points):
                    again = summarise(maximum_hz * share, run(maximum_hz * share, share).latencies_ms)
                    # Arrivals are the same, so what lies lower was disturbed less.
                    points[share] = min(points[share], again, key=lambda point: point.p99_ms)
                    yield share, points[share]
            service = tuple(ServiceTime(size, ms) for size, ms in times.items())
            components = (component,) if name_component else ()
            latency = tuple(points[share] for share in RATE_SHARES)
            yield Configuration(batching.kind, batching.batch, maximum_hz, latency, service, components)
            return
    raise UnsteadyMachine(
        f"{batching.kind} batch {batching.batch}: the machine was not steady, {ATTEMPTS} times: {'; '.join(reasons)}."
        " Stop what else runs on it and start the command again; it goes on with this configuration."
    )
