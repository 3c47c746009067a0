"""What one server can do, looked up in the profiles: capacity under an SLO, latency under a load, best batching.

A server hosts one model. All its streams together must keep every stream's SLO. For one component the load is a request
rate. A server that answers several components of one model (an option) is judged by utilisation: the loads, each
divided by its own maximum throughput, add up, and each component must keep its SLO at that utilisation of its profile.

Calls of one robot to one such server with an engine that shares what is seen find the prefix of an observation there
that another one was about (OxyGen 3.3), and what it takes is counted once (`prefixes.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from math import inf

from rosa_contract.config.tasks import SYSTEM1, SYSTEM2
from rosa_contract.errors import ConfigError, ConfigProblem
from rosa_server.plan.engines import SHARING_ENGINE
from rosa_server.scheduler.problem import Problem, StreamClass
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_server.scheduler.profiles.options import Options
from rosa_server.scheduler.profiles.prefixes import prefixes_saved_hz
from rosa_server.scheduler.profiles.profile import CONTINUOUS, DYNAMIC, Configuration
from rosa_server.timing.batches import BatchProfile

DEFAULT_ENGINE = "plain"  # of a backend that has several
DEFAULT_ENGINES = (DEFAULT_ENGINE, "isolated")  # what it does when its options name none, by whichever name


@dataclass(frozen=True)
class Load:
    """`streams` equal request streams of one class to one server."""

    task: str
    component: str
    streams: int
    rate_hz: float  # of one stream
    slo_ms: float

    @cached_property
    def stream_class(self) -> StreamClass:
        return StreamClass(self.task, self.component)


@dataclass(frozen=True)
class Assessment:
    """A server under its loads with its best batching."""

    configuration: Configuration
    utilisation: float  # of the maximum throughput
    mean_ms: dict[str, float] = field(default_factory=dict)  # by component
    loop_ms: dict[str, float] = field(default_factory=dict)
    p99_ms: dict[str, float] = field(default_factory=dict)


class Catalog:
    """The profiles of one problem under the solver's options."""

    def __init__(self, problem: Problem, library: ProfileLibrary, options: Options) -> None:
        self.options = options
        self._profiles = {
            need.model: library.get_for(need.model, need.component, problem.gpu_type)
            for need in problem.needs.values()
        }
        self._max_batch = {need.model: need.max_batch for need in problem.needs.values() if need.max_batch}
        self._engines = {need.model: need.engine or DEFAULT_ENGINE for need in problem.needs.values()}
        self._needs = problem.needs
        self._shares = any(need.engine == SHARING_ENGINE for need in problem.needs.values())
        self._robots = {cls.name: cls.robots for cls in problem.classes}
        self._check_engines()
        self._check_batches()
        self.capacity_hz = lru_cache(maxsize=None)(self._capacity_hz)
        self.configurations = lru_cache(maxsize=None)(self._configurations)
        self.choices = lru_cache(maxsize=None)(self._choices)
        # By identity: hashing a configuration costs more than the look-up.
        self._caps: dict[tuple[int, float], float] = {}

    def packed(self, packing: str) -> Catalog:
        """The same profiles, with another packing."""
        return self._under(replace(self.options, packing=packing))

    def apart(self) -> Catalog:
        """The same profiles, with a server for each component."""
        return self._under(replace(self.options, share_components=False))

    def _under(self, options: Options) -> Catalog:
        other = copy(self)
        other.options = options
        return other

    def _check_engines(self) -> None:
        for model, engine in self._engines.items():
            measured = sorted({c.engine for c in self._profiles[model].configurations if c.engine})
            if measured and not any(self._of_engine(model, c) for c in self._profiles[model].configurations):
                words = (
                    f"is {engine}, but the profile has {', '.join(measured)}; measure it with `rosa profile`"
                )
                problem = ConfigProblem(f"models.{model}.options.engine", "conflict", words)
                raise ConfigError("factory file", [problem])

    def _of_engine(self, model: str, configuration: Configuration) -> bool:
        """Whether a configuration was measured with the engine that the factory file names."""
        named = self._engines[model]
        return configuration.engine in ("", *(DEFAULT_ENGINES if named in DEFAULT_ENGINES else (named,)))

    def _check_batches(self) -> None:
        for model, highest in self._max_batch.items():
            lowest = min(c.batch for c in self._profiles[model].configurations)
            if highest < lowest:
                words = f"is {highest}, but the smallest profiled batch is {lowest}; profile a smaller one"
                problem = ConfigProblem(f"models.{model}.max_batch", "conflict", words)
                raise ConfigError("factory file", [problem])

    def _configurations(self, model: str, component: str) -> tuple[Configuration, ...]:
        """Batching configurations of a model that were profiled for a component with its engine, within max_batch
        and the options.

        Empty where the component has profiles of its own and max_batch leaves none of them, only another component's.
        """
        profile = self._profiles[model]
        highest = self._max_batch.get(model, inf)
        found = tuple(
            c
            for c in profile.configurations_for(component)
            if c.batch <= highest and self._of_engine(model, c)
        )
        if not self.options.dynamic_batching:
            found = tuple(c for c in found if c.batching != DYNAMIC)
        if self.options.batch_sizes and any(c.batching == "static" for c in found):
            found = tuple(c for c in found if c.batching == "static" and c.batch in self.options.batch_sizes)
        return found

    def cap(self, configuration: Configuration, slo_ms: float) -> float:
        """Highest aggregate rate of a configuration within the SLO, Hz."""
        key = (id(configuration), slo_ms)
        if key not in self._caps:
            limit_ms = slo_ms - self.options.network_ms
            self._caps[key] = configuration.capacity_hz(self.options.slo_statistic, limit_ms)
        return self._caps[key]

    def _choices(self, model: str, component: str, slo_ms: float) -> tuple[tuple[Configuration, float], ...]:
        """The configurations of a component, each with its cap under an SLO, Hz."""
        return tuple((c, self.cap(c, slo_ms) * (1 + 1e-9)) for c in self.configurations(model, component))

    def times(self, model: str, component: str) -> BatchProfile:
        """Time of a whole batch by its size, the shortest of its configurations. Sizes that were not profiled are
        padded to the next, unless the profile says otherwise or it batches continuously."""
        sizes: dict[int, float] = {}
        padded = False
        for configuration in self.configurations(model, component):
            padded |= configuration.batching != CONTINUOUS and not self._profiles[model].every_size
            for one in configuration.service:
                sizes[one.size] = min(one.ms, sizes.get(one.size, inf))
        return BatchProfile(sizes, padded)

    def memory_mb(self, models: Iterable[str]) -> float:
        """What these models take on one GPU, each with its own worker."""
        return sum(self._profiles[model].memory_mb for model in models)

    @property
    def hardware_memory_mb(self) -> float:
        """What a GPU has, as the profiles say."""
        return min(profile.hardware_memory_mb for profile in self._profiles.values())

    def _capacity_hz(self, model: str, component: str, slo_ms: float) -> float:
        """Highest aggregate rate that one server serves within the SLO under its best batching, Hz."""
        return max((self.cap(c, slo_ms) for c in self.configurations(model, component)), default=0.0)

    def best_latency_ms(self, model: str, component: str) -> float:
        """Loop latency of a server under the lightest load."""
        statistic = self.options.loop_statistic
        choices = self.configurations(model, component)
        return min((c.latency_ms(statistic, 0.0) for c in choices), default=inf) + self.options.network_ms

    def assess(self, model: str, loads: Sequence[Load]) -> Assessment | None:
        """The batching with the least latency that keeps every SLO under `loads`, or None."""
        rates: dict[str, float] = {}
        slos: dict[str, float] = {}
        for load in loads:
            rates[load.component] = rates.get(load.component, 0.0) + load.streams * load.rate_hz
            slos[load.component] = min(slos.get(load.component, inf), load.slo_ms)
        if len(rates) == 1:
            component, rate = next(iter(rates.items()))
            return self._assess_one(model, component, rate, slos[component])
        saved_hz = self._prefixes_saved_hz(loads)
        found = self._assess_shared(model, rates, slos, saved_hz)
        if found is not None and SYSTEM1 in saved_hz:
            shares_s = min(
                self._needs[load.stream_class].shares_s for load in loads if load.component == SYSTEM2
            )
            if found.p99_ms[SYSTEM2] > 1000 * shares_s:  # plans come too late for what they were made with
                del saved_hz[SYSTEM1]
                return self._assess_shared(model, rates, slos, saved_hz)
        return found

    def together(self, model: str, loads: Sequence[Load]) -> bool:
        """Whether one server keeps every SLO under all these loads because prefixes are shared on it."""
        return bool(self._prefixes_saved_hz(loads)) and self.assess(model, loads) is not None

    def _prefixes_saved_hz(self, loads: Sequence[Load]) -> dict[str, float]:
        """Component -> calls per second that find the prefix of their observation there.

        Only where all robots of a task are on this server: otherwise it is not known whose streams meet.
        """
        saved: dict[str, float] = {}
        for task in () if not self._shares else {load.task for load in loads}:
            here = [
                (self._needs[load.stream_class], load.rate_hz)
                for load in loads
                if (load.task, load.streams) == (task, self._robots[task])
            ]
            sharing = [(need, rate_hz) for need, rate_hz in here if need.engine == SHARING_ENGINE]
            for component, hz in prefixes_saved_hz(sharing).items():
                saved[component] = saved.get(component, 0.0) + self._robots[task] * hz
        return saved

    def min_loop(
        self, model: str, component: str, rate: float, slo_ms: float
    ) -> tuple[Configuration, float] | None:
        """The batching with the least loop latency at an aggregate rate, Hz, within an SLO, and that latency in ms
        without the network; or None.
        """
        best: Configuration | None = None
        best_ms = inf
        for choice, max_hz in self.choices(model, component, slo_ms):
            if rate <= max_hz:
                latency = choice.latency_ms(self.options.loop_statistic, rate)
                if latency < best_ms:
                    best, best_ms = choice, latency
        return None if best is None else (best, best_ms)

    def _assess_one(self, model: str, component: str, rate: float, slo_ms: float) -> Assessment | None:
        found = self.min_loop(model, component, rate, slo_ms)
        if found is None:
            return None
        best, _ = found
        return self._assessment({component: best}, rate / best.max_throughput_hz)

    def _assess_shared(
        self, model: str, rates: dict[str, float], slos: dict[str, float], saved_hz: dict[str, float]
    ) -> Assessment | None:
        best: Assessment | None = None
        by_label = [{c.label: c for c in self.configurations(model, component)} for component in rates]
        for label in set.intersection(*(set(choices) for choices in by_label)):
            chosen = {component: choices[label] for component, choices in zip(rates, by_label, strict=True)}
            used = sum(
                (rates[component] - c.prefix_share * saved_hz.get(component, 0.0)) / c.max_throughput_hz
                for component, c in chosen.items()
            )
            limit = min(self.cap(c, slos[component]) / c.max_throughput_hz for component, c in chosen.items())
            if used <= limit * (1 + 1e-9):
                found = self._assessment(chosen, used)
                if best is None or sum(found.loop_ms.values()) < sum(best.loop_ms.values()):
                    best = found
        return best

    def _assessment(self, chosen: dict[str, Configuration], used: float) -> Assessment:
        def latencies_ms(statistic: str) -> dict[str, float]:
            extra = self.options.network_ms
            return {k: c.latency_ms(statistic, used * c.max_throughput_hz) + extra for k, c in chosen.items()}

        mean_ms = latencies_ms("mean")
        loop = self.options.loop_statistic
        loop_ms = mean_ms if loop == "mean" else latencies_ms(loop)
        p99_ms = latencies_ms(self.options.slo_statistic)
        return Assessment(next(iter(chosen.values())), used, mean_ms, loop_ms, p99_ms)
