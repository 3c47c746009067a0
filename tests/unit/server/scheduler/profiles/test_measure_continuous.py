"""Measuring a backend that batches continuously: calls of one request, never more at a time than it takes."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from rosa_server.models.backend import Capabilities, InputSpec, ModelInput, ModelOutput
from rosa_server.scheduler.profiles.measure import RATE_SHARES
from rosa_server.scheduler.profiles.measure_continuous import (
    JOINS_AT,
    measure_continuous,
    prompt_ms,
    sizes_of,
)
from rosa_server.scheduler.profiles.profile import CONTINUOUS, Configuration
from rosa_server.timing.continuous import Shared


class Counting:
    """A backend that counts the calls under way. Its time is that of its calls: 1 ms each, on a clock of its own."""

    input_spec = InputSpec(state={"joint_position": 7})
    max_batch = 16
    memory_mb = 1.0

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.now_s, self.running, self.limit = 0.0, 0, 0
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
            self.limit = max(self.limit, self.running)
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
    assert backend.sizes == {1} and backend.limit == 3


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


@pytest.mark.parametrize("prompt_s", [0.0, 0.004, 0.015, 0.030])
@pytest.mark.parametrize("joins_at", JOINS_AT)
def test_a_prompt_is_told_from_shared_steps_by_a_call_that_begins_late(
    prompt_s: float, joins_at: float
) -> None:
    """Against the model that simulator and planner use: 20 steps, slower by a tenth for each call beside another."""

    def service_s(size: int) -> float:
        return size * prompt_s + 20 * (0.005 + 0.0005 * size)

    shared: Shared[str] = Shared(service_s, prompt_s)
    joined_s = joins_at * service_s(1)
    shared.begin(0.0, "first")
    shared.begin(joined_s, "second")
    took_s = shared.next_s
    assert shared.end(took_s)[0] == "first"
    found = prompt_ms(*(1000 * s for s in (service_s(1), service_s(2), joined_s, took_s)))
    assert found == pytest.approx(1000 * prompt_s, abs=0.01)


def test_no_measured_time_makes_a_prompt_longer_than_a_call() -> None:
    for took_ms in (60.0, 90.0, 100.0, 150.0, 10_000.0):
        assert 0.0 <= prompt_ms(100.0, 130.0, 80.0, took_ms) < 65.0
    assert prompt_ms(100.0, 130.0, 80.0, 100.0) == 0.0, "it was not held up"


def test_the_prompt_is_measured_with_the_rest() -> None:
    backend = Counting()
    with ThreadPoolExecutor(2) as callers:
        steps = list(
            measure_continuous(backend, 2, "system2", 50, backend.clock, backend.sleep, callers, "paged")
        )
    (found,) = [step for step in steps if isinstance(step, Configuration)]
    assert 0.0 <= found.prefill_ms < found.service[0].ms
