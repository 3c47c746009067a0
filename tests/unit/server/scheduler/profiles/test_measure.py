"""Measuring a backend on a clock of its own: service times, rates, and a machine that changes under way."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from rosa_server.models.backend import InputSpec, ModelInput, ModelOutput
from rosa_server.scheduler.profiles.measure import (
    ATTEMPTS,
    Batching,
    Progress,
    UnsteadyMachine,
    batchings,
    disturbed,
    measure_batching,
    open_loop,
    random_input,
)
from rosa_server.scheduler.profiles.profile import DYNAMIC, STATIC, Configuration, LatencyPoint, load_profile
from tests.unit.server.scheduler.factories import CONFIGS


class Machine:
    """A backend that takes `run_s()` seconds for a batch of any size, on a clock of its own."""

    input_spec = InputSpec(images={"front": (4, 4)}, state={"joint_position": 7})
    max_batch = 4
    memory_mb = 1.0

    def __init__(self) -> None:
        self.now_s, self.sizes = 0.0, list[int]()

    def run_s(self) -> float:
        return 0.010

    def clock(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def load(self) -> None: ...

    def warm_up(self) -> None: ...

    def infer(self, batch: Sequence[ModelInput]) -> list[ModelOutput]:
        self.now_s += self.run_s()
        self.sizes.append(len(batch))
        return [ModelOutput() for _ in batch]

    def close(self) -> None: ...


class BusyUntil(Machine):
    """Five times slower until `end` runs have been made."""

    def __init__(self, end: int) -> None:
        super().__init__()
        self.end = end

    def run_s(self) -> float:
        return 0.050 if len(self.sizes) < self.end else 0.010


class Stalls(Machine):
    """Takes 0.3 s for a run now and then while runs `begin` to `end` are made."""

    def __init__(self, begin: int, end: int) -> None:
        super().__init__()
        self.begin, self.end = begin, end

    def run_s(self) -> float:
        return 0.300 if self.begin <= len(self.sizes) < self.end and len(self.sizes) % 10 == 0 else 0.010


class Erratic(Machine):
    """Fast when asked without pause, five times slower after every rest."""

    def __init__(self) -> None:
        super().__init__()
        self.rested = False

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self.rested = True

    def run_s(self) -> float:
        took = 0.050 if self.rested else 0.010
        self.rested = False
        return took


ONE = Batching(STATIC, 1)


def measured(machine: Machine, progress: Progress | None = None, batching: Batching = ONE) -> Configuration:
    steps = measure_batching(
        machine, batching, "system1", 100, machine.clock, machine.sleep, progress or Progress()
    )
    *_, configuration = steps
    assert isinstance(configuration, Configuration)
    return configuration


def test_measuring_finds_service_time_and_maximum_throughput() -> None:
    machine = Machine()
    padded = batchings([2, 4, 8], machine.max_batch)[-2]
    assert (padded.kind, padded.batch) == ("static", 4)
    configuration = measured(machine, batching=padded)
    assert configuration.max_throughput_hz == pytest.approx(400)
    assert configuration.service[0].ms == pytest.approx(10)
    assert set(machine.sizes) == {4}, "padded"
    assert configuration.latency_ms("p99", 40) < 25
    assert configuration.latency[0].p50_ms >= 10


def test_a_request_that_waits_is_charged_from_its_arrival() -> None:
    machine = Machine()
    inputs = [random_input(machine.input_spec, "system1", np.random.default_rng(0))]
    found = open_loop(machine, inputs, ONE, 200.0, 500, 1, machine.clock, machine.sleep)
    assert max(found.latencies_ms) > 1000, "200 requests a second where 100 fit: the queue has no end"


@pytest.mark.parametrize("kind", [STATIC, DYNAMIC])
def test_a_batch_shows_as_many_observations_as_it_has_requests(kind: str) -> None:
    """A model that sees equal observations once would be measured quicker than it is with robots."""

    class Looking(Machine):
        def infer(self, batch: Sequence[ModelInput]) -> list[ModelOutput]:
            assert len({one.images["front"].tobytes() for one in batch}) == len(batch)
            return super().infer(batch)

    machine = Looking()
    measured(machine, batching=Batching(kind, 4))
    assert max(machine.sizes) == 4


def test_an_interrupted_measurement_goes_on_where_it_stopped(tmp_path: Path) -> None:
    machine, progress, file = Machine(), Progress(), tmp_path / "model.partial.json"
    steps = measure_batching(machine, ONE, "system1", 100, machine.clock, machine.sleep, progress)
    for _ in range(4):
        next(steps)
    progress.save(file)
    measured(machine, Progress.load(file))
    without_a_break = Machine()
    measured(without_a_break)
    assert len(machine.sizes) == len(without_a_break.sizes), "nothing is measured twice"


def test_a_damaged_file_of_an_interrupted_measurement_is_started_over(tmp_path: Path) -> None:
    for text in ("", "[]", '{"points": {"static-1": 3}}'):
        (tmp_path / "p.json").write_text(text)
        assert Progress.load(tmp_path / "p.json") == Progress()


def test_a_machine_that_was_busy_in_the_beginning_is_measured_again() -> None:
    machine = BusyUntil(end=4)  # while service times were measured
    configuration = measured(machine)
    assert configuration.service[0].ms == pytest.approx(10)
    assert configuration.max_throughput_hz == pytest.approx(100), "rates and service times are of one machine"


def test_a_resumed_measurement_on_a_slower_machine_does_not_mix_the_two() -> None:
    machine, progress = Machine(), Progress()
    steps = measure_batching(machine, ONE, "system1", 100, machine.clock, machine.sleep, progress)
    for _ in range(4):
        next(steps)
    configuration = measured(BusyUntil(end=10**9), progress)
    assert configuration.service[0].ms == pytest.approx(50)
    assert configuration.latency[0].rate_hz == pytest.approx(2), "the four rates from before are gone"
    assert configuration.latency[0].p50_ms >= 50


def test_a_machine_that_never_becomes_steady_is_refused_in_words() -> None:
    with pytest.raises(UnsteadyMachine) as refused:
        measured(Erratic())
    words = str(refused.value)
    assert f"not steady, {ATTEMPTS} times: at 10 req/s a run took 5 times its service time" in words
    assert "Stop what else runs on it" in words


def point(p99_ms: float) -> LatencyPoint:
    return LatencyPoint(1.0, *[min(50.0, p99_ms)] * 4, p99_ms, p99_ms)


@pytest.mark.parametrize(
    ("p99s_ms", "again"),
    [
        ([126, 159, 739, 390, 249, 352, 447, 406, 373, 1208], [0.3, 0.4]),  # flow policy, static 1
        ([10, 14, 12, 15], []),  # as much as a p99 of few requests varies
        ([100, 90, 80, 70, 60], [0.1]),  # each is near the next, the first is far above the last
        ([50, 500, 5000], []),
    ],
)
def test_a_point_far_above_one_of_a_higher_rate_was_disturbed(
    p99s_ms: list[float], again: list[float]
) -> None:
    points = {(index + 1) / 10: point(p99_ms) for index, p99_ms in enumerate(p99s_ms)}
    assert disturbed(points) == again


def test_a_disturbed_point_is_measured_again() -> None:
    calm, busy = Machine(), Stalls(begin=206, end=306)
    configuration = measured(busy)
    assert len(busy.sizes) > 306, "during the third rate"
    undisturbed = measured(calm)
    for found, expected in zip(configuration.latency, undisturbed.latency, strict=True):
        assert found.p99_ms == pytest.approx(expected.p99_ms, rel=1e-3), "nothing of the stalls is left"


def test_a_point_that_stays_disturbed_keeps_its_least_disturbed_measurement() -> None:
    machine = Stalls(begin=206, end=10**9)
    configuration = measured(machine)
    assert len(configuration.latency) == 10
    assert len(machine.sizes) <= 6 + ATTEMPTS * 10 * 100, "it ends"


@pytest.mark.parametrize("path", sorted((CONFIGS / "profiles").glob("*/*.yaml")), ids=lambda path: path.stem)
def test_shipped_service_times_and_throughputs_are_of_one_machine(path: Path) -> None:
    for configuration in load_profile(path).configurations:
        for entry in configuration.service:
            if entry.size == configuration.batch:
                fastest_hz = 1000 * entry.size / entry.ms
                assert configuration.max_throughput_hz == pytest.approx(fastest_hz, rel=0.01)
