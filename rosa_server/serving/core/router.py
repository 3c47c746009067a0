"""Which replica answers which component of which robot, now; and what a model wants to see."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rosa_contract.config import Factory
from rosa_contract.messages import Refused, WorkerReady
from rosa_server.serving.core.failover import Failover
from rosa_server.serving.core.placement import AdmissionControl, Admitted, NoAdmission, Placement, unplanned
from rosa_server.serving.core.slots import Slots

ANYWHERE = ""  # the slot of every robot when there is no schedule


@dataclass(frozen=True)
class ModelNeeds:
    """What a model takes, as its first ready worker announced it."""

    images: Mapping[str, tuple[int, int]]  # camera -> (height, width), px
    state: Mapping[str, int]  # name -> number of values


class Router:
    """(task, slot, component) -> replica, by the schedule and by who has failed."""

    def __init__(
        self, factory: Factory, placement: Placement | None = None, admission: AdmissionControl | None = None
    ) -> None:
        self._models = {task: factory.models_of(task) for task in factory.tasks}
        self._needs: dict[str, ModelNeeds] = {}
        self._slots = Slots(placement or unplanned(factory), admission or NoAdmission())
        self.failover = Failover(self.placement.replicas, self.placement.standbys)
        self.models = tuple(sorted({model for route in self._models.values() for model in route.values()}))

    @property
    def placement(self) -> Placement:
        return self._slots.placement

    @property
    def tasks(self) -> tuple[str, ...]:
        return tuple(self._models)

    @property
    def ready(self) -> bool:
        """Whether every stream of the placement has a warm worker."""
        return all(
            self.failover.is_live(replica.id)
            for replica in self.placement.replicas.values()
            if not replica.standby
        )

    def models_of(self, task: str) -> Mapping[str, str]:
        """Component -> model. Raises `KeyError` for an unknown task."""
        return self._models[task]

    def rates_of(self, task: str) -> Mapping[str, float]:
        """Component -> calls per second that a robot of a task keeps to; empty when nothing is planned."""
        return self.placement.rates_hz.get(task, {})

    # -- routes ----------------------------------------------------------------------------------------------------

    def planned(self, task: str, slot: str) -> Mapping[str, str]:
        """Component -> replica as the placement says, whoever has failed."""
        routes = self.placement.routes
        return self._models[task] if routes is None else routes[slot]

    def route(self, task: str, slot: str, component: str) -> str | None:
        """The replica that answers this component of this robot now; None for a component that the task lacks."""
        replica = self.planned(task, slot).get(component)
        return None if replica is None else self.failover.now(replica)

    def take(self, task: str) -> str | Admitted | Refused:
        """A place for one more robot of a task, or why there is none."""
        if self.placement.routes is not None:
            return self._slots.take(task, self._cold)
        cold = self._cold(self._models[task].values())
        return Refused("not_ready", f"{cold} has no warm worker yet; say hello again") if cold else ANYWHERE

    def release(self, slot: str) -> bool:
        """Give a place back. True when the placement has changed by that."""
        return self.placement.routes is not None and self._slots.release(slot, self._cold)

    def trim(self) -> bool:
        """Give up places beyond the planned ones that nobody holds. True when the placement has changed by that."""
        return self._slots.trim(self._cold)

    def _cold(self, replicas: Iterable[str]) -> str:
        for replica in replicas:
            if not self.failover.is_live(replica):
                model = self.placement.replicas[replica].model
                return replica if replica == model else f"{replica} ({model})"
        return ""

    # -- workers ---------------------------------------------------------------------------------------------------

    def warm(self, replica: str, ready: WorkerReady) -> dict[str, str]:
        """A replica has a warm worker. Returns the replicas whose streams move, and where to."""
        self._needs[ready.model] = ModelNeeds(ready.images, ready.state)
        self._slots.changed()
        return self.failover.warm(replica)

    def lost(self, replica: str) -> dict[str, str]:
        """A replica has no worker any more. Returns the replicas whose streams move, and where to."""
        self._slots.changed()
        return self.failover.lost(replica)

    def needs_of(self, model: str) -> ModelNeeds | None:
        """None until a worker of the model has reported ready."""
        return self._needs.get(model)
