"""How a running server gets to another schedule, stage by stage: the scheduler plans it, the server carries it out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from rosa_server.plan.admission import AdmissionControl
from rosa_server.plan.placement import Placement


@dataclass(frozen=True)
class Stage:
    """One stage, which begins when the one before it is done. It has every slot and every route that robots use."""

    words: str
    placement: Placement
    starts: tuple[str, ...] = ()  # replicas that are new in it: it is done when each has a warm worker
    stops: tuple[str, ...] = ()  # replicas that it lacks: their workers end before its placement holds
    moves: bool = False  # streams move to other replicas
    after: Any = None  # the planner's own


@dataclass(frozen=True)
class Change:
    """All stages. `admission` decides about robots from the end on, `about` is what those who watch are told then."""

    stages: tuple[Stage, ...]
    admission: AdmissionControl
    about: Mapping[str, Any]
    words: str
    schedule: Mapping[str, Any] = field(
        default_factory=dict
    )  # the new one whole, as a schedule's file has it


class Planner(Protocol):
    """Plans changes of the schedule that runs. The scheduler implements it."""

    def prepare(self, placement: Placement, taken: Collection[str]) -> Callable[[str], Change]:
        """What plans, from what runs now, the way to the schedule in a file: it may take seconds, and run in another
        thread. `taken`: slots that robots have. It raises `CausedError`, or `ConfigError` for the file."""

    def written(self, stage: Stage) -> Mapping[str, Any]:
        """The schedule that runs after a stage, whole, as a schedule's file has it."""

    def learned(self, schedule: Mapping[str, Any], file: str) -> Mapping[str, Any]:
        """This schedule runs now, for the planned robots: another gateway may have got to it. Returns what is told of
        it. Raises `ConfigError`."""

    def reached(self, stage: Stage, admission: AdmissionControl) -> None:
        """The server has carried out a stage, and this decides about robots now."""
