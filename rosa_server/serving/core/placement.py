"""Where models run and which robot uses which of them: what a gateway has to know of a schedule, and no more.

Without a schedule there is one replica per model, with all its workers, and any robot may use it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from rosa_contract.config import Factory


@dataclass(frozen=True)
class Replica:
    """One model on one server: where requests are routed to. A server of the schedule has one, a standby server has one
    for each model that it holds. Without a schedule, all workers of a model together are its only replica.
    """

    id: str
    model: str
    server: str  # the replicas of a standby server share its GPU: it stands in for one server at a time
    workers: int = 1
    batch: int | None = None  # largest batch; none: what the model and its worker allow
    deadline_aware: bool = True  # else a free worker takes what waits, up to the batch, at once
    standby: bool = False


@dataclass(frozen=True)
class Placement:
    """The replicas and who uses them. A slot, `task/0`, is the place of one robot."""

    replicas: Mapping[str, Replica]
    routes: Mapping[str, Mapping[str, str]] | None = (
        None  # slot -> component -> replica; none: any robot may come
    )
    rates_hz: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # task -> component -> calls/s
    standbys: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict
    )  # replica -> who may stand in, best first

    def replica_of(self, worker_id: str, model: str) -> str | None:
        """The replica that a worker belongs to. None for a stranger."""
        replica = self.replicas.get(model if self.routes is None else replica_name(worker_id))
        return replica.id if replica is not None and replica.model == model else None


def replica_name(worker_id: str) -> str:
    """`gpu0/0.1` -> `gpu0`: a worker has the name of its replica, a number, and the number of its life."""
    return worker_id.rpartition("/")[0]


def unplanned(factory: Factory) -> Placement:
    """The placement of a factory without a schedule."""
    used = {model for task in factory.tasks for model in factory.models_of(task).values()}
    replicas = {}
    for name in sorted(used):
        model = factory.models.get(name)
        replicas[name] = Replica(name, name, name, workers=model.workers if model is not None else 1)
    return Placement(replicas)


@dataclass(frozen=True)
class Admitted:
    """One more robot may come: its slot, and the placement with it."""

    slot: str
    placement: Placement
    reason: str


class AdmissionControl(Protocol):
    """Whoever decides about robots beyond the planned ones; the scheduler does."""

    def admit(self, task: str) -> Admitted | str:
        """A slot for one more robot of a task, or in words what binds."""

    def leave(self, slot: str) -> Placement:
        """The placement when the robot of a slot has left for good: the slot is gone, and rates may be higher."""


class NoAdmission:
    """Only the planned robots."""

    def __init__(self, why: str = "robots beyond the planned ones are not admitted") -> None:
        self.why = why

    def admit(self, task: str) -> Admitted | str:
        return self.why

    def leave(self, slot: str) -> Placement:
        raise KeyError(f"nobody was admitted to {slot}")
