"""Which replica answers which component of which robot, also after one has failed; and which inputs a model needs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from rosa_contract.config.factory import Factory
from rosa_contract.config.tasks import GOAL_COUPLED
from rosa_contract.wire.messages import Refused, WorkerReady
from rosa_server.plan.admission import AdmissionControl, Admitted, NoAdmission
from rosa_server.plan.placement import Phase, Placement, Replica, unplanned
from rosa_server.serving.core.sessions.slots import Slots, Taken, not_ready

UNASKED_HZ = 0.1  # a robot that has to ask hears of this rate: less often than it waits for a permit
ANYWHERE = ""  # the slot of every robot when there is no schedule


@dataclass(frozen=True)
class ModelNeeds:
    """The inputs of a model, as its latest ready worker announced them."""

    images: Mapping[str, tuple[int, int]]  # camera -> (height, width), px
    state: Mapping[str, int]  # name -> number of values
    resizes: Collection[str] = ()  # cameras of which `images` is the largest size only
    unused: Collection[str] | None = None  # what a robot may have besides; None: anything
    actions: str = ""  # the space in which it answers; empty: joint positions, or no actions


class Failover:
    """Which replicas are warm, which have failed, and which standby stands in for which (ROSA 3.4.4): a look-up in the
    schedule's table, never a search.

    A replica that has not warmed up yet has not failed. When a failed replica is warm again, its streams return to it.
    """

    def __init__(self, replicas: Mapping[str, Replica], standbys: Mapping[str, tuple[str, ...]]) -> None:
        """`standbys`: replica -> the replicas that may stand in for it, best first."""
        self._warm: set[str] = set()
        self._failed: dict[str, None] = {}  # in the order of failing: the first gets the standby
        self._instead: dict[str, str] = {}  # failed replica -> the standby that runs its streams
        self._place(replicas, standbys)

    def _place(self, replicas: Mapping[str, Replica], standbys: Mapping[str, tuple[str, ...]]) -> None:
        self._replicas, self._standbys = replicas, standbys
        self._pools: dict[str, tuple[str, ...]] = {}
        for replica in replicas.values():
            if replica.pool:
                self._pools[replica.pool] = (*self._pools.get(replica.pool, ()), replica.id)

    def adopt(
        self, replicas: Mapping[str, Replica], standbys: Mapping[str, tuple[str, ...]]
    ) -> dict[str, str]:
        """Other replicas from now on. Returns those whose streams move, and where to; those that stay are as warm, and
        as failed, as they were."""
        self._place(replicas, standbys)
        self._warm &= set(replicas)
        self._failed = {name: None for name in self._failed if name in replicas}
        self._instead = {
            name: standby
            for name, standby in self._instead.items()
            if name in replicas and standby in standbys.get(name, ()) and standby in replicas
        }
        return self._settle()

    def now(self, replica: str) -> str:
        """The replica that runs the streams of `replica` now."""
        return self._instead.get(replica, replica)

    def is_live(self, replica: str) -> bool:
        """Whether a warm worker runs the streams of `replica`: its own, its standby's, or, once it has failed, another
        one of its pool."""
        if self.now(replica) in self._warm:
            return True
        pool = self._replicas[replica].pool
        return (
            bool(pool)
            and replica in self._failed
            and any(self.now(m) in self._warm for m in self._pools[pool])
        )

    def pool(self, name: str) -> tuple[str, ...]:
        """The replicas of a pool as placed; empty for a queue that is no pool."""
        return self._pools.get(name, ())

    def queue_of(self, replica: str) -> str:
        """The queue in which the calls of the streams of `replica` wait now."""
        return self._replicas[replica].pool or self.now(replica)

    def feeds_from(self, replica: str) -> str:
        """The queue from which the workers of `replica` take calls now: a standby joins the pool of a failed one."""
        own = self._replicas[replica]
        if own.standby:
            for failed, standby in self._instead.items():
                if standby == replica and self._replicas[failed].pool:
                    return self._replicas[failed].pool
        return own.queue

    def first_cold(self, replicas: Iterable[str]) -> Replica | None:
        """The first of these replicas whose streams no warm worker runs."""
        return next((self._replicas[name] for name in replicas if not self.is_live(name)), None)

    def served_by(self, replica: str) -> tuple[str, ...]:
        """The replicas whose streams the queue of `replica`, or a pool of this name, runs now."""
        if replica in self._pools:
            return self._pools[replica]
        own = () if replica in self._instead else (replica,)
        return own + tuple(failed for failed, standby in self._instead.items() if standby == replica)

    def covered(self, replica: str, without: Collection[str]) -> bool:
        """Whether others could run the streams of `replica` if the replicas `without` were gone."""
        pool = self._pools.get(self._replicas[replica].pool, ())
        if any(one != replica and one not in without and self.now(one) in self._warm for one in pool):
            return True
        busy = {self._replicas[standby].server for standby in self._instead.values()}
        standbys = (
            one for one in self._standbys.get(replica, ()) if one in self._warm and one not in without
        )
        return any(self._replicas[one].server not in busy for one in standbys)

    def stranded(self, gone: Collection[str]) -> list[str]:
        """The replicas whose streams no warm worker would run if these had none: of them, and of those that they stand
        in for."""
        at_stake = dict.fromkeys([*gone, *(name for one in gone for name in self.served_by(one))])
        then = Failover(self._replicas, self._standbys)  # not a copy: compiled, this class has none
        then._warm, then._failed, then._instead = set(self._warm), dict(self._failed), dict(self._instead)
        for one in gone:
            then.lost(one)
        return [name for name in at_stake if not self._replicas[name].standby and not then.is_live(name)]

    def warm(self, replica: str) -> dict[str, str]:
        """A replica has a warm worker. Returns the replicas whose streams move, and where to."""
        self._warm.add(replica)
        self._failed.pop(replica, None)
        return self._settle()

    def lost(self, replica: str) -> dict[str, str]:
        """A replica has no worker any more. Returns the replicas whose streams move, and where to."""
        self._warm.discard(replica)
        self._failed[replica] = None
        return self._settle()

    def _settle(self) -> dict[str, str]:
        before = dict(self._instead)
        for replica, standby in before.items():
            if replica not in self._failed or standby not in self._warm:
                del self._instead[replica]
        for replica in self._failed:
            if replica not in self._instead:
                busy = {self._replicas[standby].server for standby in self._instead.values()}
                for standby in self._standbys.get(replica, ()):
                    if standby in self._warm and self._replicas[standby].server not in busy:
                        self._instead[replica] = standby
                        break
        touched = {**before, **self._instead}
        return {
            replica: self.now(replica)
            for replica in touched
            if before.get(replica, replica) != self.now(replica)
        }


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

    def told_rates_of(
        self, task: str, routes: Mapping[str, str], permits: Collection[str]
    ) -> Mapping[str, float]:
        """The rates at which a robot with these routes and permits may call without one: hardly ever where its call
        would have to find a GPU of several models idle."""
        rates_hz, replicas = self.rates_of(task), self.placement.replicas
        asks = [name for name in permits if replicas[routes[name]].always_asks]
        slow_hz = {name: min(UNASKED_HZ, rates_hz.get(name, UNASKED_HZ)) for name in asks}
        return {**rates_hz, **slow_hz} if asks else rates_hz

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
        """Component -> replica as placed, whether or not it has failed; `failover` says what runs its streams now."""
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
        """What decides about robots for which no slot is free."""
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
        or runs no more, and which one does. Raises `ValueError` where it lacks a slot that a robot has."""
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
