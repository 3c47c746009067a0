"""Systems side by side: every system, fleet size and start of a scenario, over its seeds, with confidence intervals."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import sqrt
from typing import Any

from rosa_contract.config.factory import Factory
from rosa_server.scheduler.choosing.limit import limit_hz
from rosa_server.scheduler.problem import problem_from
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_sim.fleet.execute import execute
from rosa_sim.fleet.measure import Outcome
from rosa_sim.fleet.scenario import Loaded
from rosa_sim.fleet.systems import System, fleet_of, system_of, without_limits

# Student's t for a two-sided interval of 95 %, by degrees of freedom; 1.96 beyond.
T_95 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13, 2.12)
SIMULATED, REAL = "simulated", "real"
Say = Callable[[str], None]


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds and half the width of its 95 % confidence interval; one seed has none."""

    mean: float
    half: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> Estimate:
        count = len(values)
        mean = sum(values) / count
        if count < 2:
            return cls(mean, None)
        deviation = sqrt(sum((value - mean) ** 2 for value in values) / (count - 1))
        t = T_95[count - 2] if count - 2 < len(T_95) else 1.96
        return cls(mean, t * deviation / sqrt(count))


@dataclass(frozen=True)
class Row:
    """One system at one size of the fleet, started one way, run one way."""

    scenario: str
    system: str
    how: str  # SIMULATED or REAL
    robots: int
    servers: int
    seeds: int
    start: str
    predicted_hz: float
    limit_hz: float
    refused: str = ""
    served: int = 0
    rates_hz: Mapping[str, Estimate] = field(default_factory=dict)  # raw, executed, qualified
    meet: Mapping[str, float] = field(default_factory=dict)
    p50_ms: Mapping[str, float] = field(default_factory=dict)
    p99_ms: Mapping[str, float] = field(default_factory=dict)
    utilisation: float = 0.0  # mean over the servers that the system uses
    escalations: float = 0.0
    events_per_s: float = 0.0

    def plain(self) -> dict[str, Any]:
        """For JSON. Rates are 0 where the system was refused."""
        rates: dict[str, Any] = {f"{name}_hz": 0.0 for name in ("raw", "executed", "qualified")}
        for name, rate in self.rates_hz.items():
            rates[f"{name}_hz"] = round(rate.mean, 3)
            rates[f"{name}_hz_95"] = None if rate.half is None else round(rate.half, 3)
        return {
            "scenario": self.scenario,
            "system": self.system,
            "how": self.how,
            "robots": self.robots,
            "served": self.served,
            "servers": self.servers,
            "seeds": self.seeds,
            "start": self.start,
            "predicted_hz": round(self.predicted_hz, 3),
            **rates,
            "limit_hz": round(self.limit_hz, 3),
            "meet": {name: round(share, 5) for name, share in self.meet.items()},
            "p50_ms": {name: round(ms, 1) for name, ms in self.p50_ms.items()},
            "p99_ms": {name: round(ms, 1) for name, ms in self.p99_ms.items()},
            "gpu_utilisation": round(self.utilisation, 4),
            "escalations": self.escalations,
            "refused": self.refused,
        }


Runner = Callable[[System, Factory, str, int], Outcome | str]  # a text: why it cannot be run


def compare(
    loaded: Loaded, library: ProfileLibrary, real: Runner | None = None, say: Say | None = None
) -> Iterator[Row]:
    """Every row of a scenario, as soon as it is there; with `real` each one twice, the simulator first."""
    scenario = loaded.scenario
    base = loaded.factory if scenario.body.operator_s is not None else without_limits(loaded.factory)
    for robots in scenario.robots:
        factory = fleet_of(base, robots, scenario.servers)
        max_hz = limit_hz(problem_from(factory), library)
        for name in scenario.systems:
            system = system_of(name, factory, library, scenario.service_variation)

            simulated = partial(_simulated, loaded, say)
            for start in scenario.start:
                head = (robots, factory.server_cluster.num_servers, start, max_hz)
                yield row_of(loaded, SIMULATED, system, factory, head, simulated)
                if real is not None:
                    yield row_of(loaded, REAL, system, factory, head, real)


def _simulated(
    loaded: Loaded, say: Say | None, system: System, factory: Factory, start: str, seed: int
) -> Outcome:
    robots = sum(entry.num_robots for entry in factory.robot_fleet)

    def progress(now_s: float, end_s: float) -> None:
        if say is not None:
            what = f"{loaded.name} {system.name} {robots} robots {start} seed {seed}"
            say(f"{what}: {now_s:.0f} of {end_s:.0f} s")

    return execute(loaded.scenario, factory, system, start, seed, progress)


def row_of(
    loaded: Loaded,
    how: str,
    system: System,
    factory: Factory,
    head: tuple[int, int, str, float],
    run: Runner,
) -> Row:
    """Run every seed. `head`: robots, servers, start, and the limit in actions/s."""
    robots, servers, start, max_hz = head
    # A live run takes as long as it measures, and its noise is the machine's: one is made, whatever the seeds.
    seeds = loaded.scenario.seeds if how == SIMULATED else 1
    predicted_hz = system.predicted_hz
    common = (loaded.name, system.name, how, robots, servers, seeds, start, predicted_hz, max_hz)
    if system.serving is None:
        return Row(*common, refused=system.refused)
    tried = [run(system, factory, start, seed) for seed in range(seeds)]
    runs = [one for one in tried if isinstance(one, Outcome)]
    if not runs:
        return Row(*common, refused=str(tried[0]))

    def mean(values: Sequence[float]) -> float:
        return sum(values) / len(values)

    def by_component(field_name: str) -> dict[str, float]:
        names = list(getattr(runs[0], field_name))
        return {name: mean([getattr(one, field_name)[name] for one in runs]) for name in names}

    return Row(
        *common,
        served=min(one.served for one in runs),
        rates_hz={
            "raw": Estimate.of([one.raw_hz for one in runs]),
            "executed": Estimate.of([one.executed_hz for one in runs]),
            "qualified": Estimate.of([one.qualified_hz for one in runs]),
        },
        meet=by_component("meet"),
        p50_ms=by_component("p50_ms"),
        p99_ms=by_component("p99_ms"),
        utilisation=mean([mean(list(one.utilisation.values()) or [0.0]) for one in runs]),
        escalations=mean([one.escalations for one in runs]),
        events_per_s=sum(one.events for one in runs) / max(1e-9, sum(one.wall_s for one in runs)),
    )


class ProgressLine:
    """One line on a terminal that is written over; silent where nobody watches."""

    def __init__(self) -> None:
        self._on = sys.stderr.isatty()

    def __call__(self, text: str) -> None:
        if self._on:
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        self("")
