"""Queueing simulation of one worker, open-loop (Poisson) or closed-loop: from service times to latency.

Used to derive profiles where no measurement exists. Times are in milliseconds, from arrival at the worker's
queue to the answer. Every function is deterministic for its `seed`.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

from rosa_server.scheduler.profiles.profile import LatencyPoint

WARM_UP_SHARE = 0.1  # first requests left out: the queue starts empty


def poisson_arrivals_ms(rate_hz: float, count: int, rng: Random) -> list[float]:
    """`count` arrival times of a Poisson process."""
    now, times = 0.0, []
    for _ in range(count):
        now += rng.expovariate(rate_hz) * 1000
        times.append(now)
    return times


def batch_latencies_ms(
    rate_hz: float, batch: int, service_ms: Callable[[int], float], jitter: float, count: int, seed: int
) -> list[float]:
    """Latencies of a worker that, when idle, takes what waits, at most `batch`, and runs it for `service_ms(taken)`.

    `jitter` is the coefficient of variation of one run (normal, cut at 3 deviations).
    """
    rng = Random(seed)
    arrivals = poisson_arrivals_ms(rate_hz, count, rng)
    latencies: list[float] = []
    free_at, first = 0.0, 0
    while first < count:
        start = max(free_at, arrivals[first])
        last = first + 1
        while last < count and last - first < batch and arrivals[last] <= start:
            last += 1
        noise = 1 + jitter * max(-3.0, min(3.0, rng.gauss(0, 1)))
        free_at = start + service_ms(last - first) * noise
        latencies.extend(free_at - arrival for arrival in arrivals[first:last])
        first = last
    return latencies


def closed_loop_latencies_ms(
    think_ms: Sequence[float],
    batch: int,
    service_ms: Callable[[int], float],
    jitter: float,
    rounds: int,
    seed: int,
    period_ms: float = 0.0,
) -> list[float]:
    """Latencies when each robot sends, waits for its answer, acts for its `think_ms`, and sends again.

    `think_ms` has one entry per robot and varies by `jitter` too. With `period_ms` a robot keeps at least
    that much time between two requests (ROSA's rate control). Robots start at random times within one round.
    """
    rng = Random(seed)
    spread = max(think_ms) + service_ms(batch)
    waiting = sorted((rng.uniform(0, spread), robot) for robot in range(len(think_ms)))
    latencies: list[float] = []
    free_at = 0.0
    for _ in range(rounds * len(think_ms)):
        start = max(free_at, waiting[0][0])
        taken = [entry for entry in waiting[:batch] if entry[0] <= start]
        free_at = start + service_ms(len(taken)) * (1 + jitter * max(-3.0, min(3.0, rng.gauss(0, 1))))
        del waiting[: len(taken)]
        for arrival, robot in taken:
            latencies.append(free_at - arrival)
            acted = free_at + think_ms[robot] * (1 + jitter * max(-3.0, min(3.0, rng.gauss(0, 1))))
            insort(waiting, (max(acted, arrival + period_ms), robot))
    return latencies


@dataclass(frozen=True)
class TokenModel:
    """A continuously batched autoregressive worker, iteration by iteration (as vLLM runs one)."""

    prefill_ms: float  # added to an iteration for every request admitted in it
    step_ms: float  # one decoding iteration: weights read once
    step_per_request_ms: float  # added per running request: its KV cache
    overhead_ms: float  # per request outside the GPU loop: image preprocessing, tokenizer, HTTP
    tokens: int  # mean answer length
    token_spread: float  # answers vary uniformly within tokens * (1 +- spread)
    max_running: int

    def alone_ms(self, requests: int = 1) -> float:
        """Mean time for `requests` that arrive together at an idle worker."""
        steps = self.tokens * (self.step_ms + requests * self.step_per_request_ms)
        return self.overhead_ms + requests * self.prefill_ms + steps

    def max_throughput_hz(self) -> float:
        """Throughput with `max_running` requests always running."""
        per_request = self.prefill_ms + self.tokens * (
            self.step_ms / self.max_running + self.step_per_request_ms
        )
        return 1000 / per_request


def continuous_latencies_ms(rate_hz: float, model: TokenModel, count: int, seed: int) -> list[float]:
    """Latencies of a continuously batched worker: a request joins at the next iteration, its prefill delays
    that iteration.
    """
    rng = Random(seed)
    arrivals = deque(poisson_arrivals_ms(rate_hz, count, rng))
    running: list[list[float]] = []  # [tokens left, arrival]
    latencies: list[float] = []
    low, high = model.tokens * (1 - model.token_spread), model.tokens * (1 + model.token_spread)
    now = 0.0
    while arrivals or running:
        if not running and arrivals[0] > now:
            now = arrivals[0]
        admitted = 0
        while arrivals and arrivals[0] <= now and len(running) < model.max_running:
            running.append([max(1.0, round(rng.uniform(low, high))), arrivals.popleft()])
            admitted += 1
        now += admitted * model.prefill_ms + model.step_ms + model.step_per_request_ms * len(running)
        left = []
        for entry in running:
            entry[0] -= 1
            if entry[0] <= 0:
                latencies.append(now - entry[1] + model.overhead_ms)
            else:
                left.append(entry)
        running = left
    return latencies


def summarise(rate_hz: float, latencies_ms: Sequence[float]) -> LatencyPoint:
    """The profile's statistics of latencies in order of answering, without the warm-up."""
    values = np.asarray(latencies_ms[int(len(latencies_ms) * WARM_UP_SHARE) :])
    p50, p90, p95, p99, p99_9 = np.percentile(values, [50, 90, 95, 99, 99.9])
    return LatencyPoint(
        rate_hz, float(values.mean()), float(p50), float(p90), float(p95), float(p99), float(p99_9)
    )
