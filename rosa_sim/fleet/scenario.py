"""What is run: a scenario file (`configs/scenarios/*.yaml`), strictly read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rosa_contract.config.factory import Factory, load_factory
from rosa_contract.config.strict import Reader, read_yaml
from rosa_contract.errors import ConfigError
from rosa_contract.setting import setting
from rosa_contract.shipped import shipped
from rosa_contract.wording import nearest, shown
from rosa_server.simulator.network import Network
from rosa_sim.fleet.robot import Habits
from rosa_sim.fleet.systems import SYSTEMS

SHIPPED = shipped("configs", "scenarios")
RANDOM, TOGETHER = "random", "together"
STARTS = (RANDOM, TOGETHER)


@dataclass(frozen=True)
class LostServer:
    """A server of the schedule that fails while robots work."""

    component: str = setting("the first server that answers it fails")
    at_s: float = setting("when, counted from the start", above=0, at_most=1e6)
    back_s: float | None = setting("how long until it is warm again; none: never", None, above=0, at_most=1e6)


@dataclass(frozen=True)
class Joined:
    """Robots that come later, all at once; admission decides about them."""

    task: str = setting("name of a task of the factory")
    robots: int = setting("how many", at_least=1, at_most=10_000)
    at_s: float = setting("when, counted from the start", above=0, at_most=1e6)


@dataclass(frozen=True)
class Body:
    """How closely robots follow real ones."""

    control_rate_hz: float = setting(
        "the core decides so often; 0: whenever something is due", 0.0, at_least=0, at_most=2000
    )
    camera_rate_hz: float = setting(
        "frames per second; 0: one whenever it is needed", 0.0, at_least=0, at_most=1000
    )
    operator_s: float | None = setting(
        "a person resumes an escalated robot after so long; none: violations reach no limit", None, at_least=0
    )

    @property
    def habits(self) -> Habits:
        def period_s(rate_hz: float) -> float:
            return 1 / rate_hz if rate_hz else 0.0

        return Habits(period_s(self.control_rate_hz), period_s(self.camera_rate_hz), self.operator_s)


@dataclass(frozen=True)
class Scenario:
    """Which factory with how many robots, under which systems, and what happens to it."""

    factory: str = setting("factory file; a relative path starts at the scenario's folder")
    robots: tuple[int, ...] = setting("sizes of the fleet", at_least=1, at_most=100_000)
    systems: tuple[str, ...] = setting("what is compared", lambda: SYSTEMS, choices=SYSTEMS)
    start: tuple[str, ...] = setting(
        "when tasks begin: at random within one planned round, or together",
        lambda: STARTS,
        choices=STARTS,
    )
    servers: int | None = setting("instead of the factory's num_servers", None, at_least=1, at_most=100_000)
    seeds: int = setting("runs with other random numbers", 3, at_least=1, at_most=1000)
    warm_up_s: float = setting("left out of every figure", 10.0, at_least=0, at_most=3600)
    seconds: float = setting("measured after that", 60.0, above=0, at_most=86_400)
    service_variation: float = setting(
        "of one run of a model: standard deviation, as a share", 0.03, at_least=0, at_most=1
    )
    network: Network = setting("the way between robots and gateway", Network)
    body: Body = setting("robots", Body)
    lost_servers: tuple[LostServer, ...] = setting("servers that fail", tuple)
    joined: tuple[Joined, ...] = setting("robots that come later", tuple)


@dataclass(frozen=True)
class Loaded:
    """A scenario with its factory."""

    name: str
    scenario: Scenario
    factory: Factory

    def changed(self, **fields: Any) -> Loaded:
        """The same with other settings."""
        return replace(self, scenario=replace(self.scenario, **fields))


def load_scenario(name: str) -> Loaded:
    """A scenario by path, or by name one of those that come with ROSA. Raises `ConfigError` with every mistake."""
    path = Path(name)
    if not path.suffix and not path.exists():
        path = SHIPPED / f"{name}.yaml"
        if not path.is_file():
            known = sorted(p.stem for p in SHIPPED.glob("*.yaml"))
            raise ConfigError(name, [f"no such scenario{nearest(name, known)}; there are {', '.join(known)}"])
    return scenario_from(read_yaml(path), path)


def scenario_from(document: Any, path: Path) -> Loaded:
    """As `load_scenario`, from plain YAML values; `path` says where relative paths start."""
    reader = Reader(str(path))
    scenario = reader.section(Scenario, "", document)
    reader.finish()
    assert isinstance(scenario, Scenario)
    for key in ("robots", "systems", "start"):
        if not getattr(scenario, key):
            reader.fail(key, "is empty; expected at least one", "wrong_length")
    factory = load_factory(path.parent / scenario.factory)
    components = {name for task in factory.tasks.values() for name in task.components}
    for index, lost in enumerate(scenario.lost_servers):
        if lost.component not in components:
            hint = nearest(lost.component, components)
            words = f"no component {shown(lost.component)}{hint}"
            reader.fail(f"lost_servers[{index}].component", words, "unknown_name")
    for index, joined in enumerate(scenario.joined):
        if joined.task not in factory.tasks:
            words = f"no task {shown(joined.task)}{nearest(joined.task, factory.tasks)}"
            reader.fail(f"joined[{index}].task", words, "unknown_name")
    tasks = len({entry.task for entry in factory.robot_fleet})
    for index, robots in enumerate(scenario.robots):
        if robots < tasks:
            reader.fail(f"robots[{index}]", f"expected at least {tasks}, one for each task, got {robots}")
    reader.finish()
    return Loaded(path.stem, scenario, factory)
