"""What the scheduler has to solve: task classes with their needs, from a factory description (ROSA 3.4.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from rosa_contract.config.factory import Factory
from rosa_contract.config.tasks import AHEAD, ASYNCHRONOUS, GOAL_COUPLED, SYSTEM2, Pipeline
from rosa_server.plan.engines import AUTO_ENGINE


class StreamClass(NamedTuple):
    """Identical streams: the calls of one component from the robots of one task. As text: `task/component`."""

    task: str
    component: str

    def __str__(self) -> str:
        return f"{self.task}/{self.component}"

    @classmethod
    def parse(cls, text: str) -> StreamClass:
        """From `task/component`; raises ValueError for any other text."""
        task, _, component = text.rpartition("/")
        if not task or not component:
            raise ValueError(f"expected task/component, got {text!r}")
        return cls(task, component)


@dataclass(frozen=True)
class Need:
    """One model component of a task class: what one robot asks of it."""

    component: str
    model: str
    slo_ms: float
    calls_per_action: float = 0.0  # goal-coupled: 1 for System 1, 1/H for System 2
    freq_hz: float = 0.0  # obligation: fixed rate; where calls may leave early, the highest in the long run
    period_s: float = 0.0  # obligation whose calls may leave early: when the next one is due, at the latest
    early_s: float = 0.0  # and how long before that it may leave, to share an observation
    shares_s: float = (
        0.0  # goal-coupled: so soon after System 2's call, System 1's is about what that one saw
    )
    max_batch: int | None = None  # largest batch that the factory file allows; none = as profiled
    engine: str = (
        ""  # of the model's backend, `options.engine`; empty: its default; "auto": the scheduler chooses
    )

    @property
    def is_goal(self) -> bool:
        """Goal-coupled components set the action rate; obligations run at their own rate."""
        return self.calls_per_action > 0

    @property
    def every_s(self) -> float:
        """Obligation: time between two calls that leave when they are due."""
        return self.period_s or 1 / self.freq_hz

    def rate_hz(self, action_rate_hz: float) -> float:
        """Requests per second of one robot at an action rate."""
        return self.calls_per_action * action_rate_hz if self.is_goal else self.freq_hz


@dataclass(frozen=True)
class TaskClass:
    """Robots that do the same task: K_c, v_c and F_c^min / K_c of equation (1), t_act and the needs of a robot."""

    name: str
    robots: int
    action_s: float
    needs: tuple[Need, ...]
    weight: float = 1.0
    min_rate_hz: float = 0.0
    asynchronous: bool = False  # the next chunk is inferred while one plays
    plans_ahead: bool = False  # and System 2 is called meanwhile

    @property
    def goals(self) -> tuple[Need, ...]:
        return tuple(need for need in self.needs if need.is_goal)

    @property
    def obligations(self) -> tuple[Need, ...]:
        return tuple(need for need in self.needs if not need.is_goal)


@dataclass(frozen=True)
class Problem:
    """A factory as the solver sees it."""

    servers: int
    gpu_type: str
    classes: tuple[TaskClass, ...]

    @property
    def robots(self) -> int:
        return sum(cls.robots for cls in self.classes)

    @cached_property
    def by_name(self) -> dict[str, TaskClass]:
        return {cls.name: cls for cls in self.classes}

    @cached_property
    def needs(self) -> dict[StreamClass, Need]:
        """What one robot asks, by task and component."""
        return {StreamClass(cls.name, need.component): need for cls in self.classes for need in cls.needs}

    @cached_property
    def min_rates_hz(self) -> dict[str, float]:
        return {cls.name: cls.min_rate_hz for cls in self.classes}

    def objective(self, rates_hz: Mapping[str, float]) -> float:
        """Equation (1): the weighted action throughput of the fleet."""
        return sum(cls.weight * cls.robots * rates_hz[cls.name] for cls in self.classes)

    def action_throughput_hz(self, rates_hz: Mapping[str, float]) -> float:
        """Actions per second of the fleet."""
        return sum(cls.robots * rates_hz[cls.name] for cls in self.classes)

    def with_class(self, cls: TaskClass) -> Problem:
        """The same problem with another version of one class."""
        return replace(self, classes=tuple(cls if c.name == cls.name else c for c in self.classes))

    @cached_property
    def open_engines(self) -> tuple[str, ...]:
        """Models whose engine the scheduler chooses."""
        return tuple(sorted({need.model for need in self.needs.values() if need.engine == AUTO_ENGINE}))

    def with_engines(self, engines: Mapping[str, str]) -> Problem:
        """The same problem with these engines, model -> engine, where it leaves the choice open."""

        def settled(need: Need) -> Need:
            return replace(need, engine=engines.get(need.model, "")) if need.engine == AUTO_ENGINE else need

        classes = tuple(
            replace(cls, needs=tuple(settled(need) for need in cls.needs)) for cls in self.classes
        )
        return replace(self, classes=classes)

    def with_servers(self, servers: int) -> Problem:
        return replace(self, servers=servers)

    def with_robots(self, robots: dict[str, int]) -> Problem:
        """The same tasks with other robot counts; a class without robots is left out."""
        classes = tuple(replace(cls, robots=robots.get(cls.name, cls.robots)) for cls in self.classes)
        return replace(self, classes=tuple(cls for cls in classes if cls.robots > 0))

    def scaled_to(self, robots: int) -> Problem:
        """The same mix with `robots` robots in all (largest remainders)."""
        exact = {cls.name: cls.robots * robots / self.robots for cls in self.classes}
        counts = {name: int(value) for name, value in exact.items()}
        by_rest = sorted(exact, key=lambda name: counts[name] - exact[name])
        for name in by_rest[: robots - sum(counts.values())]:
            counts[name] += 1
        return self.with_robots(counts)


def problem_from(factory: Factory) -> Problem:
    """The scheduling problem of a factory description; fleet entries of one task are added up."""
    counts: dict[str, int] = {}
    for entry in factory.robot_fleet:
        counts[entry.task] = counts.get(entry.task, 0) + entry.num_robots
    classes = []
    for name, robots in counts.items():
        task = factory.tasks[name]
        pipeline = task.pipeline
        ratio = pipeline.system2_to_system1_call_ratio
        limit = {model: entry.max_batch for model, entry in factory.models.items()}
        engines = {model: str(entry.options.get("engine", "")) for model, entry in factory.models.items()}
        needs = tuple(
            Need(
                key,
                part.model,
                part.slo_ms,
                calls_per_action=(ratio if key == SYSTEM2 else 1.0) if key in GOAL_COUPLED else 0.0,
                freq_hz=0.0 if key in GOAL_COUPLED else _max_hz(pipeline, part.freq_hz),
                **({} if key in GOAL_COUPLED else _early(pipeline, part.freq_hz)),
                shares_s=pipeline.share_observation_ms / 1000 if key in GOAL_COUPLED else 0.0,
                max_batch=limit.get(part.model),
                engine=engines.get(part.model, ""),
            )
            for key, part in task.components.items()
        )
        how = (pipeline.execution == ASYNCHRONOUS, pipeline.planning == AHEAD)
        worth = (task.value_weight, task.min_action_rate_hz)
        classes.append(TaskClass(name, robots, pipeline.action_s, needs, *worth, *how))
    return Problem(factory.server_cluster.num_servers, factory.server_cluster.gpu_type, tuple(classes))


def _early(pipeline: Pipeline, freq_hz: float | None) -> dict[str, float]:
    """When calls may leave early: their period, and by how much."""
    early_s = pipeline.early_s(freq_hz) if freq_hz else 0.0
    return {"period_s": 1 / freq_hz, "early_s": early_s} if freq_hz and early_s else {}


def _max_hz(pipeline: Pipeline, freq_hz: float | None) -> float:
    """Calls per second of a periodic component in the long run, however long rounds take.

    A call that leaves early leaves with a round. So either each one does, and there is a round, which takes as long as
    its action at least, between two; or some leave when they are due, with an early one after them at most.
    """
    if not freq_hz:
        return 0.0
    period_s, early_s = 1 / freq_hz, pipeline.early_s(freq_hz)
    with_rounds_s = max(period_s - early_s, min(period_s, pipeline.action_s))
    return max(1 / with_rounds_s, 2 / (2 * period_s - early_s))
