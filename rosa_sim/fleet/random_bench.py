"""`rosa bench fleet --random N`: plans of factories that nobody tuned anything for, executed, the worst first.

Each factory is drawn (`random_factory.py`), planned, and executed from both starts and under five disturbances. Beside
it stand the paper's system and the best baseline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from rosa_contract.config.factory import Factory
from rosa_contract.config.policies import PLANNED
from rosa_contract.config.tasks import SYSTEM1
from rosa_server.scheduler.choosing.limit import limit_hz, none_serves
from rosa_server.scheduler.choosing.prediction import NETWORK_MS
from rosa_server.scheduler.problem import problem_from
from rosa_server.simulator.network import Network
from rosa_sim.fleet.execute import execute
from rosa_sim.fleet.measure import Outcome
from rosa_sim.fleet.random_factory import RandomFactory, random_factory, random_lab
from rosa_sim.fleet.scenario import RANDOM, TOGETHER, Joined, LostServer, Scenario
from rosa_sim.fleet.systems import READINGS, ROSA, System, executable, system_of, without_limits

VERSION = 6  # of what is planned and executed: rows of an older one are said to be such
WARM_UP_S, SECONDS, VARIATION = 10.0, 20.0, 0.03
NOISE = 0.02  # of actions per second, between two runs
LONGER = (
    6  # times as long is measured again what seems worse than something else: a short window sees few rounds
)
LOCAL, JITTER = Network(NETWORK_MS), "jitter 3 ms"
IN_TIME = 0.99  # share of calls; a verdict that is asked for every 5 s is seen twice by each robot in a short window
NEAR = 0.03  # of what is predicted
RIVALS = ("equal_partition", "weighted_partition")


@dataclass(frozen=True)
class Executed:
    """One run: actions per second of the fleet, qualified ones, and the component that was in time least often."""

    hz: float
    qualified_hz: float
    meet: float
    component: str


@dataclass(frozen=True)
class Judged:
    """What became of one factory."""

    seed: int
    robots: int
    servers: int
    refused: str = ""  # why `rosa plan` refuses it
    proof: str = ""  # that nothing could serve it
    any_arrivals: bool = True  # its SLOs hold whenever calls come
    limit_hz: float = 0.0
    predicted_hz: float = 0.0
    planned_hz: float = 0.0  # the schedule's own rates
    runs: Mapping[str, Executed] = field(default_factory=dict)  # by start or disturbance
    # Actions per second of robots that keep to the schedule's own rates, where `runs` fall below these.
    at_own_rates: Mapping[str, float] = field(default_factory=dict)
    others: Mapping[str, float] = field(default_factory=dict)  # qualified actions per second of other systems
    version: int = VERSION

    @property
    def error(self) -> float:
        """By how much what is executed differs from what was predicted, at worst of both starts; a share, signed."""
        errors = [self.runs[start].hz / self.predicted_hz - 1 for start in (RANDOM, TOGETHER)]
        return max(errors, key=abs)

    @property
    def below_own_rates(self) -> tuple[str, ...]:
        """The starts and disturbances under which robots do less than if they kept to the schedule's own rates."""
        lowest = {name: (1 - NOISE) * hz for name, hz in self.at_own_rates.items()}
        return tuple(name for name, hz in lowest.items() if self.runs[name].hz < hz)

    @property
    def best_other_hz(self) -> float:
        return max(self.others.values(), default=0.0)

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def disturbances(factory: Factory) -> dict[str, dict[str, Any]]:
    """What is changed in a scenario, by name."""
    task = factory.robot_fleet[0].task
    return {
        RANDOM: {},
        TOGETHER: {},
        JITTER: {"network": Network(0.5, 3.0)},
        "latency 5 ms": {"network": Network(5.0)},
        "1 % lost": {"network": Network(0.2, 0.5, 0.01)},
        "a lost server": {"lost_servers": (LostServer(SYSTEM1, 4.0, 3.0),)},
        "robots join": {"joined": (Joined(task, 2, 5.0),)},
    }


def judged(
    seed: int, seconds: float = SECONDS, draw: Callable[[int], RandomFactory] = random_factory
) -> Judged:
    """Draw, plan and execute one factory."""
    drawn = draw(seed)
    factory = without_limits(drawn.factory)
    problem = problem_from(factory)
    robots = sum(entry.num_robots for entry in factory.robot_fleet)
    head = (seed, robots, factory.server_cluster.num_servers)
    system = system_of(ROSA, factory, drawn.library, VARIATION)
    if system.serving is None:
        others = _others(drawn, factory, robots, seconds)
        proof, limit = none_serves(problem, drawn.library), limit_hz(problem, drawn.library)
        return Judged(*head, refused=system.refused, proof=proof, limit_hz=limit, others=others)
    scenarios = {
        name: _scenario(robots, seconds, **changes) for name, changes in disturbances(factory).items()
    }
    runs = {name: _run(scenario, factory, system, name) for name, scenario in scenarios.items()}
    planned = replace(factory, policies=replace(factory.policies, rates=PLANNED))
    min_hz = (1 - NOISE) * system.schedule.action_throughput_hz
    keeping = executable(ROSA, planned, system.schedule, drawn.library, VARIATION)
    at_own_rates = {
        name: _run(scenarios[name], planned, keeping, name).hz
        for name, run in runs.items()
        if run.hz < min_hz
    }
    others = _others(drawn, planned, robots, seconds)
    longer = {name: replace(each, seconds=LONGER * seconds) for name, each in scenarios.items()}
    for name in (RANDOM, TOGETHER, JITTER):
        off = name != JITTER and abs(runs[name].hz / system.predicted_hz - 1) > NEAR
        if runs[name].meet < IN_TIME or off:
            runs[name] = _run(longer[name], factory, system, name)
    for name, hz in at_own_rates.items():
        if runs[name].hz < (1 - NOISE) * hz:
            runs[name] = _run(longer[name], factory, system, name)
            at_own_rates[name] = _run(longer[name], planned, keeping, name).hz
    ahead = [name for name, hz in others.items() if runs[RANDOM].qualified_hz < (1 - NOISE) * hz]
    if ahead:
        runs[RANDOM] = _run(longer[RANDOM], factory, system, RANDOM)
        others |= _others(drawn, planned, robots, LONGER * seconds, ahead)
    return Judged(
        *head,
        any_arrivals=system.schedule.holds_for_any_arrivals,
        limit_hz=limit_hz(problem, drawn.library),
        predicted_hz=system.predicted_hz,
        planned_hz=system.schedule.action_throughput_hz,
        runs=runs,
        at_own_rates=at_own_rates,
        others=others,
    )


def _others(
    drawn: RandomFactory,
    factory: Factory,
    robots: int,
    seconds: float,
    names: Sequence[str] = (*READINGS, *RIVALS),
) -> dict[str, float]:
    """Qualified actions per second of the paper's system and of baselines that serve the factory."""
    found = {}
    for name in names:
        system = system_of(name, factory, drawn.library, VARIATION)
        if system.serving is not None:
            found[name] = _run(_scenario(robots, seconds), factory, system, RANDOM).qualified_hz
    return found


def _scenario(robots: int, seconds: float, **changes: Any) -> Scenario:
    plain = Scenario("", (robots,), warm_up_s=WARM_UP_S, seconds=seconds, network=LOCAL)
    return replace(plain, **changes)


def _run(scenario: Scenario, factory: Factory, system: System, name: str) -> Executed:
    start = TOGETHER if name == TOGETHER else RANDOM
    outcome: Outcome = execute(scenario, factory, system, start, 0)
    component = min(outcome.meet, key=lambda each: outcome.meet[each])
    return Executed(outcome.executed_hz, outcome.qualified_hz, outcome.meet[component], component)


def all_judged(count: int, first: int = 0, seconds: float = SECONDS, labs: bool = False) -> Iterator[Judged]:
    """One factory after the other. `labs`: small ones, whose models share GPUs."""
    for seed in range(first, first + count):
        yield judged(seed, seconds, random_lab if labs else random_factory)


def shown(one: Judged) -> str:
    """One line of the table."""
    head = f"{one.seed:>6}{one.robots:>7}{one.servers:>8}"
    if one.refused:
        served = f"  (others: {one.best_other_hz:.1f})" if one.best_other_hz else ""
        proved = f" ({one.proof})" if one.proof else " (not proved)"
        return f"{head}  refused: {one.refused.split(';')[0]}{proved}{served}"
    worst = min(one.runs, key=lambda name: one.runs[name].meet)
    lowest = min((name for name in one.runs if name != "a lost server"), key=lambda name: one.runs[name].hz)
    return (
        f"{head}{one.planned_hz:>9.1f}{one.predicted_hz:>10.1f}{one.runs[RANDOM].hz:>9.1f}"
        f"{one.runs[TOGETHER].hz:>9.1f}{one.error:>8.1%}{one.limit_hz:>8.1f}{one.best_other_hz:>8.1f}"
        f"  least {one.runs[lowest].hz:.1f} ({lowest}); {one.runs[worst].component} in time"
        f" {one.runs[worst].meet:.1%} ({worst})"
    )


def header() -> str:
    return (
        f"{'seed':>6}{'robots':>7}{'servers':>8}{'planned':>9}{'predicted':>10}{RANDOM:>9}{TOGETHER:>9}"
        f"{'error':>8}{'limit':>8}{'others':>8}"
    )


def badness(one: Judged) -> float:
    """The worst come first: by how much what was predicted is missed, or calls are late."""
    if one.refused:
        return float(not one.proof)
    return max(
        abs(one.error), *(1 - run.meet for name, run in one.runs.items() if name in (RANDOM, TOGETHER))
    )
