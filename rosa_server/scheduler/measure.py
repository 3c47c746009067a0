"""Measuring a backend: service times, maximum throughput, and latency at ten open-loop request rates (ROSA 3.4.2).

Arrivals are drawn beforehand and latency counts from the drawn arrival, so a backend that falls behind is
charged for the whole wait. One thread suffices: while a batch runs, arrivals pass on their own. Time comes
from `clock` and `sleep`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

from rosa_server.models.backend import Backend, InputSpec, ModelInput
from rosa_server.scheduler.profiles import DYNAMIC, STATIC, Configuration, LatencyPoint, ServiceTime
from rosa_server.scheduler.queueing import poisson_arrivals_ms, summarise

RATE_SHARES = tuple(step / 10 for step in range(1, 11))
Clock = Callable[[], float]
Sleep = Callable[[float], None]


@dataclass(frozen=True)
class Plan:
    """What is measured: one batching configuration."""

    batching: str
    batch: int

    @property
    def key(self) -> str:
        return f"{self.batching}-{self.batch}"


def plans(batches: Sequence[int], max_batch: int) -> list[Plan]:
    """Batch one, and for every larger batch both padded and dynamic batching."""
    sizes = sorted({size for size in batches if 1 < size <= max_batch})
    return [Plan(STATIC, 1)] + [Plan(batching, size) for size in sizes for batching in (STATIC, DYNAMIC)]


def random_input(spec: InputSpec, component: str, rng: np.random.Generator) -> ModelInput:
    """An input of the declared shapes: noise images, small states."""
    images = {name: rng.integers(0, 256, (h, w, 3), dtype=np.uint8) for name, (h, w) in spec.images.items()}
    state = {name: rng.uniform(-0.1, 0.1, length).astype(np.float32) for name, length in spec.state.items()}
    return ModelInput(component, "profile", images, state)


def service_times_ms(
    backend: Backend, sample: ModelInput, sizes: Sequence[int], runs: int, clock: Clock
) -> dict[int, float]:
    """Mean time of one run by batch size; the first run of each size is warm-up."""
    times = {}
    for size in sizes:
        batch = [sample] * size
        backend.infer(batch)
        begin = clock()
        for _ in range(runs):
            backend.infer(batch)
        times[size] = max(1e-3, 1000 * (clock() - begin) / runs)
    return times


def open_loop_ms(
    backend: Backend,
    sample: ModelInput,
    plan: Plan,
    rate_hz: float,
    requests: int,
    seed: int,
    clock: Clock,
    sleep: Sleep,
) -> list[float]:
    """Latencies of `requests` Poisson arrivals, in order of answering."""
    arrivals = poisson_arrivals_ms(rate_hz, requests, Random(seed))
    begin = clock()
    latencies: list[float] = []
    first = 0
    while first < requests:
        now = 1000 * (clock() - begin)
        if arrivals[first] > now:
            sleep(max(1e-6, (arrivals[first] - now) / 1000))  # rounding must not stop a clock
            continue
        last = first + 1
        while last < requests and last - first < plan.batch and arrivals[last] <= now:
            last += 1
        backend.infer([sample] * (plan.batch if plan.batching == STATIC else last - first))
        done = 1000 * (clock() - begin)
        latencies.extend(max(1e-3, done - arrival) for arrival in arrivals[first:last])
        first = last
    return latencies


def measure_plan(
    backend: Backend,
    plan: Plan,
    component: str,
    requests: int,
    clock: Clock,
    sleep: Sleep,
    known: dict[str, LatencyPoint],
    name_component: bool = True,
) -> Iterator[tuple[str, LatencyPoint] | Configuration]:
    """Yields (key, point) after each measured rate, and the finished configuration at the end.

    `known` holds points of an interrupted measurement by key; they are not measured again. Rates are shares of the
    maximum throughput, batch / service time, measured now.
    """
    sample = random_input(backend.input_spec, component, np.random.default_rng(0))
    sizes = (
        [plan.batch] if plan.batching == STATIC else [s for s in (1, 2, 4, 8, 16, 32, 64) if s <= plan.batch]
    )
    times = service_times_ms(backend, sample, sizes, max(3, requests // 20), clock)
    maximum_hz = 1000 * plan.batch / times[sizes[-1]]
    for share in RATE_SHARES:  # an interrupted measurement goes on with the rates that it began with
        if f"{plan.key}@{share:g}" in known:
            maximum_hz = known[f"{plan.key}@{share:g}"].rate_hz / share
            break
    points = []
    for share in RATE_SHARES:
        key = f"{plan.key}@{share:g}"
        point = known.get(key)
        if point is None:
            rate = maximum_hz * share
            latencies = open_loop_ms(backend, sample, plan, rate, requests, round(share * 100), clock, sleep)
            point = summarise(rate, latencies)
            yield key, point
        points.append(point)
    points.sort(key=lambda point: point.rate_hz)
    maximum_hz = points[-1].rate_hz
    service = tuple(ServiceTime(size, ms) for size, ms in times.items())
    components = (component,) if name_component else ()
    yield Configuration(plan.batching, plan.batch, maximum_hz, tuple(points), service, components)
