"""Serving profiles: what one GPU does with one model, measured or derived (ROSA 3.4.2, step 1).

A profile file belongs to one model on one hardware. For every batching configuration b it holds the latency
distribution L(b, rate) at request rates up to the measured maximum throughput. Between measured rates latency
is interpolated linearly and never falls as the rate rises; below the lowest rate it is that of the lowest
rate; beyond the highest it is infinite, because nothing is known there.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from math import inf
from pathlib import Path
from typing import Any

import yaml

from rosa_contract.config.strict import Reader, read_yaml
from rosa_contract.setting import setting

SCHEMA = 1
STATISTICS = ("mean", "p50", "p90", "p95", "p99", "p99_9")
# Latency of calls that come one after the other, as phases and permits let them; from service times.
EVEN, FULL = "even", "full"
# By these: what share of a server's throughput such calls may use, and how much longer a few of them take. With FULL
# nothing is left free, so what is planned with it has to be played through.
IN_TURN = {EVEN: (0.9, 1.15), FULL: (1.0, 1.0)}
STATIC = "static"  # the worker takes what waits, at most b, and runs a batch of b (padded): CUDA Graphs have one shape
DYNAMIC = "dynamic"  # the worker takes what waits, at most b, and runs just that
CONTINUOUS = "continuous"  # requests join and leave a running batch (vLLM)
BATCHING = (STATIC, DYNAMIC, CONTINUOUS)
ORIGINS = MEASURED, DERIVED, EMULATED = "measured", "derived", "emulated"


@dataclass(frozen=True)
class LatencyPoint:
    """Latency from arrival at the worker's queue to the answer, at one open-loop request rate."""

    rate_hz: float = setting("aggregate request rate", above=0)
    mean_ms: float = setting("mean latency", above=0)
    p50_ms: float = setting("median", above=0)
    p90_ms: float = setting("90th percentile", above=0)
    p95_ms: float = setting("95th percentile", above=0)
    p99_ms: float = setting("99th percentile", above=0)
    p99_9_ms: float = setting("99.9th percentile", above=0)


@dataclass(frozen=True)
class ServiceTime:
    """Mean time to run `size` requests together on an otherwise idle worker."""

    size: int = setting("requests run together", at_least=1)
    ms: float = setting("mean time", above=0)


@dataclass(frozen=True)
class Configuration:
    """One batching configuration of a worker and its latency under load."""

    batching: str = setting("how requests form a batch", choices=BATCHING)
    batch: int = setting("largest batch; of a continuous worker, requests in flight", at_least=1)
    max_throughput_hz: float = setting("measured maximum throughput", above=0)
    latency: tuple[LatencyPoint, ...] = setting("by rising rate")
    service: tuple[ServiceTime, ...] = setting("service time by batch size", tuple)
    components: tuple[str, ...] = setting("components it was profiled for; none = any", tuple)
    engine: str = setting("engine of the backend that was measured; empty: it has only one", "")
    prefix_share: float = setting(
        "share of a request's time that another one about the same observation does not take again",
        0.0,
        at_least=0,
        at_most=1,
    )

    prefill_ms: float = setting(
        "of a continuous worker: time of one prompt, during which the other requests wait; a part of the service time."
        " 0: not known",
        0.0,
        at_least=0,
        at_most=600_000,
    )

    @property
    def label(self) -> str:
        """Short name for tables: `b4`, `b<=4`, or `cont`; with the engine where the backend has several."""
        batching = {STATIC: f"b{self.batch}", DYNAMIC: f"b<={self.batch}"}.get(self.batching, "cont")
        return f"{batching} {self.engine}".strip()

    @cached_property
    def _rates(self) -> list[float]:
        return [point.rate_hz for point in self.latency]

    @cached_property
    def _curves(self) -> dict[str, list[float]]:
        return {
            name: list(accumulate((getattr(p, f"{name}_ms") for p in self.latency), max))
            for name in STATISTICS
        }

    @cached_property
    def _in_turn(self) -> dict[str, tuple[list[float], list[float]]]:
        return {name: self._evenly(*allowed) for name, allowed in IN_TURN.items()}

    def _evenly(self, share: float, spare: float) -> tuple[list[float], list[float]]:
        """Rates and latencies where calls come evenly: of `n` at a time each takes as long as `n` that begin together.

        Without service times nothing is known of that; it is the median then.
        """
        sizes = [one for one in self.service if one.size <= self.batch]
        if self.batching != CONTINUOUS:
            sizes = [one for one in sizes if one.size == self.batch]
        rates: list[float] = []
        values: list[float] = []
        for one in sorted(sizes, key=lambda each: each.size):
            rate_hz = min(1000 * share * one.size / one.ms, self._rates[-1])
            if not rates or rate_hz > rates[-1]:
                rates.append(rate_hz)
                values.append(spare * one.ms)
        return (rates, values) if rates else (self._rates, self._curves["p50"])

    def _curve(self, statistic: str) -> tuple[list[float], list[float]]:
        return self._in_turn[statistic] if statistic in IN_TURN else (self._rates, self._curves[statistic])

    def latency_ms(self, statistic: str, rate_hz: float) -> float:
        """Latency statistic at `rate_hz` requests per second; infinite beyond the measured range."""
        rates, values = self._curve(statistic)
        if rate_hz <= rates[0]:
            return values[0]
        if rate_hz > rates[-1] * (1 + 1e-12):
            return inf
        i = min(bisect_left(rates, rate_hz), len(rates) - 1)
        share = (rate_hz - rates[i - 1]) / (rates[i] - rates[i - 1])
        return values[i - 1] + share * (values[i] - values[i - 1])

    def capacity_hz(self, statistic: str, limit_ms: float) -> float:
        """Highest rate whose latency statistic stays within `limit_ms`; 0 when not even the lowest does."""
        rates, values = self._curve(statistic)
        if values[0] > limit_ms:
            return 0.0
        for i in range(1, len(rates)):
            if values[i] > limit_ms:
                share = (limit_ms - values[i - 1]) / (values[i] - values[i - 1])
                return rates[i - 1] + share * (rates[i] - rates[i - 1])
        return rates[-1]


@dataclass(frozen=True)
class CameraDecoding:
    """What one JPEG of a camera costs."""

    camera: str = setting("its name in a request")
    height: int = setting("px", at_least=1)
    width: int = setting("px", at_least=1)
    ms: float = setting("CPU time of decoding it on one core", above=0)


@dataclass(frozen=True)
class Decoding:
    """What the pictures of a request cost the machine that the model runs on."""

    cameras: tuple[CameraDecoding, ...] = setting("none: not known, or pictures come raw", tuple)
    cores: float = setting("cores of that machine for each worker", 1.0, above=0)
    model_cores: float = setting("of them, what the model keeps busy while it runs", 0.0, at_least=0)


@dataclass(frozen=True)
class Fact:
    """Where a number comes from."""

    name: str = setting("what the number is")
    value: str = setting("the number with its unit")
    kind: str = setting(
        "measured, published, derived or assumed", choices=("measured", "published", "derived", "assumed")
    )
    source: str = setting("paper and section, or how it was derived")


@dataclass(frozen=True)
class Profile:
    """Everything known about one model on one hardware."""

    schema: int = setting("version of this format", at_least=SCHEMA, at_most=SCHEMA)
    model: str = setting("model name as in factory files")
    hardware: str = setting("hardware name as in server_cluster.gpu_type")
    origin: str = setting(
        "measured on that hardware; derived from other figures; or emulated: measured of a model that sleeps as long as"
        " it was told",
        choices=ORIGINS,
    )
    memory_mb: float = setting("GPU memory with weights and buffers", above=0)
    hardware_memory_mb: float = setting("memory of the hardware", above=0)
    configurations: tuple[Configuration, ...] = setting("batching configurations")
    command: str = setting("command that made the file", "")
    facts: tuple[Fact, ...] = setting("where the numbers come from", tuple)
    batch_latency_ms: Mapping[str, float] = setting(
        "batch size -> time of one run, as the emulated backend reads it", dict
    )
    decoding: Decoding = setting(
        "what pictures cost before the model sees them; batches and latencies here are without it", Decoding
    )
    every_size: bool = setting(
        "a batch of any size runs as it is; otherwise only the profiled sizes do, as with CUDA graphs, and any other is"
        " padded to the next of them",
        False,
    )

    def configurations_for(self, component: str) -> tuple[Configuration, ...]:
        """Configurations profiled for `component`; failing that, those for any component; else none."""
        named = tuple(c for c in self.configurations if component in c.components)
        return named or tuple(c for c in self.configurations if not c.components)

    @property
    def components(self) -> tuple[str, ...]:
        """The components that it was profiled for by name."""
        return tuple(sorted({name for c in self.configurations for name in c.components}))


def profile_from(document: Any, source: str) -> Profile:
    """A `Profile` from plain YAML values. Raises `ConfigError` with every mistake."""
    reader = Reader(source)
    profile = reader.section(Profile, "", document)
    reader.finish()
    assert isinstance(profile, Profile)
    _check(reader, profile)
    reader.finish()
    return profile


def load_profile(path: str | Path) -> Profile:
    """Load and check a profile file. Raises `ConfigError`."""
    return profile_from(read_yaml(path), str(path))


def save_profile(profile: Profile, path: str | Path) -> None:
    """Write a profile file; numbers keep five significant digits. Raises `ConfigError` for one that could not be read
    again, which is not written."""
    document = asdict(profile)
    if not profile.decoding.cameras:
        del document["decoding"]
    plain = _plain(document)
    profile_from(plain, str(path))
    text = yaml.safe_dump(plain, sort_keys=False, width=120, default_flow_style=None)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text, encoding="utf-8")


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return float(f"{value:.5g}") if isinstance(value, float) else value


def _check(reader: Reader, profile: Profile) -> None:
    if not profile.configurations:
        reader.fail("configurations", "is empty; expected at least one batching configuration", "missing")
    if profile.memory_mb > profile.hardware_memory_mb:
        words = f"{profile.memory_mb:g} MB do not fit {profile.hardware_memory_mb:g} MB"
        reader.fail("memory_mb", words, "conflict")
    for index, configuration in enumerate(profile.configurations):
        where = f"configurations[{index}].latency"
        rates = [point.rate_hz for point in configuration.latency]
        if len(rates) < 2:
            reader.fail(where, f"expected at least two rates, got {len(rates)}", "wrong_length")
        if any(low >= high for low, high in pairwise(rates)):
            reader.fail(where, f"rate_hz must rise from point to point, got {rates}", "conflict")
        for number, point in enumerate(configuration.latency):
            ladder = [point.p50_ms, point.p90_ms, point.p95_ms, point.p99_ms, point.p99_9_ms]
            if ladder != sorted(ladder):
                words = f"percentiles must not fall from p50 to p99_9, got {ladder}"
                reader.fail(f"{where}[{number}]", words, "conflict")
        _check_service(reader, f"configurations[{index}]", configuration)


def _check_service(reader: Reader, where: str, configuration: Configuration) -> None:
    """Latencies are enough for a schedule, but not for how it is carried out."""
    shortest_ms = min((one.ms for one in configuration.service), default=inf)
    if not configuration.service:
        words = "is empty; expected the time of one size at least, such as {size: 1, ms: 20}"
        reader.fail(f"{where}.service", words, "missing")
    if configuration.prefill_ms > shortest_ms:
        words = f"{configuration.prefill_ms:g} ms is more than a request alone takes, {shortest_ms:g} ms"
        reader.fail(f"{where}.prefill_ms", words, "conflict")
