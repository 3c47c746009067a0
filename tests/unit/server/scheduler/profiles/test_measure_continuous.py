"""Measuring a backend that batches continuously: calls of one request, never more at a time than it takes."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from rosa_server.models.backend import Capabilities, InputSpec, ModelInput, ModelOutput
from rosa_server.scheduler.profiles.measure import RATE_SHARES
from rosa_server.scheduler.profiles.measure_continuous import measure_continuous, sizes_of
from rosa_server.scheduler.profiles.profile import CONTINUOUS, Configuration


class Counting:
    """A backend that counts the calls under way. Its time is that of its calls: 1 ms each, on a clock of its own."""

    input_spec = InputSpec(state={"joint_position": 7})
    max_batch = 16
    memory_mb = 1.0

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.now_s, self.running, self.most = 0.0, 0, 0
        self.sizes = set[int]()

    def clock(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        with self.lock:
            self.now_s += seconds

    def load(self) -> None: ...

    def warm_up(self) -> None: ...

    def infer(self, batch: Sequence[ModelInput]) -> list[ModelOutput]:
        with self.lock:
            self.running += 1
            self.most = max(self.most, self.running)
            self.sizes.add(len(batch))
            self.now_s += 0.001
        time.sleep(0.0005)
        with self.lock:
            self.running -= 1
        return [ModelOutput() for _ in batch]

    def close(self) -> None: ...


def test_it_measures_calls_of_one_request_at_ten_rates_and_several_numbers_of_callers() -> None:
    backend = Counting()
    with ThreadPoolExecutor(3) as callers:
        *points, configuration = measure_continuous(
            backend, 3, "system1", 60, backend.clock, backend.sleep, callers, "pipelined"
        )
    assert isinstance(configuration, Configuration)
    assert (configuration.batching, configuration.batch) == (CONTINUOUS, 3)
    assert (configuration.engine, configuration.label) == ("pipelined", "cont pipelined")
    assert [share for share, _ in points] == list(RATE_SHARES)
    rates = [point.rate_hz for point in configuration.latency]
    assert rates == sorted(rates) and rates[-1] == pytest.approx(configuration.max_throughput_hz)
    assert [one.size for one in configuration.service] == [1, 2, 3]
    # Its calls take 1 ms of the clock each, one after the other: three callers wait for three.
    assert configuration.service[-1].ms == pytest.approx(3.0)
    assert backend.sizes == {1} and backend.most == 3


def test_a_model_that_raises_ends_the_measurement() -> None:
    class Broken(Counting):
        def infer(self, batch: Sequence[ModelInput]) -> list[ModelOutput]:
            raise RuntimeError("out of memory")

    backend = Broken()
    with ThreadPoolExecutor(2) as callers, pytest.raises(RuntimeError, match="out of memory"):
        list(measure_continuous(backend, 2, "system1", 60, backend.clock, backend.sleep, callers))


def test_the_largest_number_of_calls_comes_last() -> None:
    assert sizes_of(7) == [1, 2, 4, 7]
    assert sizes_of(2) == [1, 2]


def test_what_a_second_call_about_an_observation_saves_is_measured() -> None:
    class Sharing(Counting):
        """Looks for 8 ms at what it has not seen, and answers in 2 ms."""

        capabilities = Capabilities(shares=True)

        def infer(self, batch: Sequence[ModelInput]) -> list[ModelOutput]:
            (one,) = batch
            self.sleep(0.002 if one.observation in known else 0.010)
            if one.observation:
                known.add(one.observation)
            return [ModelOutput()]

    known: set[str] = set()
    backend = Sharing()
    with ThreadPoolExecutor(2) as callers:
        steps = list(measure_continuous(backend, 2, "safety", 50, backend.clock, backend.sleep, callers))
    (found,) = [step for step in steps if isinstance(step, Configuration)]
    assert found.prefix_share == pytest.approx(0.8)
