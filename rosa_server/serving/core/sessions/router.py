"""Which replica answers which component of which robot; and which inputs a model needs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from rosa_contract.config.factory import Factory
from rosa_contract.config.tasks import GOAL_COUPLED
from rosa_contract.wire.messages import Refused, WorkerReady
from rosa_server.plan.admission import AdmissionControl, Admitted, NoAdmission
from rosa_server.plan.placement import Phase, Placement, unplanned
from rosa_server.serving.core.sessions.failover import Failover
from rosa_server.serving.core.sessions.slots import Slots, Taken, not_ready

ANYWHERE = ""  # the slot of every robot when there is no schedule


@dataclass(frozen=True)
class ModelNeeds:
    """The inputs of a model, as its latest ready worker announced them."""

    images: Mapping[str, tuple[int, int]]  # camera -> (height, width), px
    state: Mapping[str, int]  # name -> number of values
    resizes: Collection[str] = ()  # cameras of which `images` is the largest size only
    unused: Collection[str] | None = None  # what a robot may have besides; None: anything
    actions: str = ""  # the space in which it answers; empty: joint positions, or no actions


class Router:
    """(task, slot, component) -> replica, by the schedule and by which replicas have failed."""

    def __init__(
        self,
        factory: Factory,
        placement: Placement | None = None,
        admission: AdmissionControl | None = None,
        make_slots: Callable[[Placement, AdmissionControl, Failover], Slots] = Slots,
    ) -> None:
        self._models = {task: factory.models_of(task) for task in factory.tasks}
        self._needs: dict[str, ModelNeeds] = {}
        placement = placement or unplanned(factory)
        self.failover = Failover(placement.replicas, placement.standbys)
        self._slots = make_slots(placement, admission or NoAdmission(), self.failover)

    @property
    def placement(self) -> Placement:
        return self._slots.placement

    @property
    def tasks(self) -> tuple[str, ...]:
        return tuple(self._models)

    @property
    def ready(self) -> bool:
        """Whether every stream that workers of this gateway answer has a warm one."""
        return all(
            self.failover.is_live(replica.id)
            for replica in self.placement.replicas.values()
            if not replica.standby and not replica.node
        )

    def models_of(self, task: str) -> Mapping[str, str]:
        """Component -> model. Raises `KeyError` for an unknown task."""
        return self._models[task]

    def rates_of(self, task: str) -> Mapping[str, float]:
        """Component -> calls per second that each robot of a task must not exceed; empty when nothing is planned."""
        return self.placement.rates_hz.get(task, {})

    def phases_of(self, slot: str) -> Mapping[str, Phase]:
        """Component -> when a slot's calls are due; empty where robots choose by themselves."""
        return self.placement.phases.get(slot, {})

    def permits_of(self, routes: Mapping[str, str]) -> tuple[str, ...]:
        """The components that a robot with these routes may call before their turn, with a permit."""
        if not self.placement.adaptive or not self.placement.rates_hz:
            return ()
        replicas = self.placement.replicas
        return tuple(
            name for name, replica in routes.items() if name in GOAL_COUPLED and replicas[replica].permits
        )

    # -- routes ----------------------------------------------------------------------------------------------------

    def routes_of(self, task: str, slot: str) -> Mapping[str, str]:
        """Component -> replica as placed, whether or not it has failed; `failover` says who runs its streams now."""
        routes = self.placement.routes
        return self._models[task] if routes is None else routes[slot]

    def take(self, task: str, robot: str = "", token: str = "") -> Taken | Refused:
        """A slot for a robot of a task, or why there is none. `token`: what it was welcomed with before."""
        if self.placement.routes is not None:
            return self._slots.take(task, robot, token)
        cold = self.failover.first_cold(self._models[task].values())
        return Taken(ANYWHERE) if cold is None else not_ready(cold)

    def add_slot(self, task: str, dry_run: bool) -> Admitted | Refused:
        """One more slot for a task; raises `ValueError` where there is no schedule, and any robot may come."""
        if self.placement.routes is None:
            raise ValueError("there is no schedule, so any robot may come")
        return self._slots.add(task, dry_run)

    def release(self, slot: str, bye: bool = False) -> bool:
        """Give a slot back. True when that changed the placement."""
        return self.placement.routes is not None and self._slots.release(slot, bye)

    @property
    def admission(self) -> AdmissionControl:
        """Who decides about robots for which no slot is free."""
        return self._slots.admission

    @property
    def planned(self) -> Mapping[str, int]:
        """Task -> the slots that it keeps when their robots leave."""
        return self._slots.planned

    def taken(self) -> set[str]:
        """The slots that robots have now."""
        return self._slots.taken()

    def adopt(
        self, placement: Placement, admission: AdmissionControl, planned: Mapping[str, int] | None = None
    ) -> dict[str, str]:
        """Another placement of the schedule from now on. Returns the replicas whose streams a standby runs from now on,
        or runs no more, and who does. Raises `ValueError` where it lacks a slot that a robot has."""
        self._slots.adopt(placement, admission, planned)
        return self.failover.adopt(placement.replicas, placement.standbys)

    def freeze(self, why: str) -> None:
        """Add and remove no slots until a placement is adopted, or `why` is empty."""
        self._slots.freeze(why)

    def trim(self) -> bool:
        """Remove free slots beyond the planned ones. True when that changed the placement."""
        return self.placement.routes is not None and self._slots.trim()

    # -- workers ---------------------------------------------------------------------------------------------------

    def warm(self, replica: str, ready: WorkerReady) -> dict[str, str]:
        """A replica has a warm worker. Returns the replicas whose streams move, and where to."""
        self._needs[ready.model] = ModelNeeds(
            ready.images, ready.state, ready.resizes, ready.unused, ready.actions
        )
        self._slots.changed()
        return self.failover.warm(replica)

    def lost(self, replica: str) -> dict[str, str]:
        """A replica has no worker any more. Returns the replicas whose streams move, and where to."""
        self._slots.changed()
        return self.failover.lost(replica)

    def needs_of(self, model: str) -> ModelNeeds | None:
        """None until a worker of the model has reported ready."""
        return self._needs.get(model)
