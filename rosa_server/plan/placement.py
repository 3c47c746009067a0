"""Where models run and which robot uses which of them: all that a gateway has to know of a schedule.

Without a schedule there is one replica per model, with all its workers, and any robot may use it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rosa_contract.config.factory import Factory
from rosa_server.timing.batches import BatchProfile
from rosa_server.timing.decoding import DecodeCost

UNPLANNED_AT_ONCE = 64  # as the greatest `at_once` of a factory file


@dataclass(frozen=True)
class Replica:
    """One model on one server: where requests are routed to. A server of the schedule has one, a standby server has one
    for each model that it holds. Without a schedule, all workers of a model together are its only replica.
    """

    id: str
    model: str
    # The replicas of a standby server share its GPU: it stands in for one server at a time.
    server: str
    workers: int = 1
    batch: int | None = None  # largest batch; None: what the model and its worker allow
    deadline_aware: bool = True  # false: a free worker at once takes what waits, up to `batch`
    waits: bool = True  # a free worker may wait for one more request, if it is deadline-aware and that pays
    standby: bool = False
    node: str = ""  # where another gateway runs it; empty: this one does
    pool: str = ""  # replicas of one pool take their calls from one queue; empty: each from its own
    # Calls that run at a time, each answered by itself, where the worker can do that; None: whole batches only.
    at_once: int | None = None
    reserved: int = 0  # of these places, for periodic calls: goal-coupled ones with permits leave them free
    service_ms: Mapping[int, float] = field(default_factory=dict)  # expected of a batch, by its size
    padded: bool = False  # batches of other sizes than these are padded to the next
    # One way to a server in the cloud, which takes of its pool what the edge would begin with too late; 0: at the edge.
    link_ms: float = 0.0
    permits: bool = False  # its goal-coupled calls may come before their turn with a permit
    engine: str = ""  # of the backend, where the factory file leaves the choice to the schedule
    # Its GPU has other models, too: they take turns (turns.py), and a call may first wait for another one's batch.
    takes_turns: bool = False
    blocked_ms: float = 0.0
    # Or it may not: its robots call with a permit alone, as their GPU's next turn is theirs then. A call that nobody
    # expects finds another model's batch running, and is late.
    always_asks: bool = False
    # Times by component, where calls of several components run beside each other.
    mixed_ms: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    # Of one prompt by component, where calls are answered one by one: everything else on the server waits meanwhile.
    prefill_ms: Mapping[str, float] = field(default_factory=dict)
    # What the pictures of its requests cost; `service_ms` has what cannot be hidden of it.
    decoding: DecodeCost | None = None

    @property
    def times(self) -> BatchProfile:
        """How long its batches are planned to take."""
        return BatchProfile(self.service_ms, self.padded)

    @property
    def queue(self) -> str:
        """The queue that its calls wait in, as placed."""
        return self.pool or self.id


@dataclass(frozen=True)
class Phase:
    """The calls of one component of one robot are due `offset_s` after each multiple of `period_s`."""

    period_s: float
    offset_s: float

    def wait_s(self, now_s: float) -> float:
        """From now to the next of them."""
        return (self.offset_s - now_s) % self.period_s


@dataclass(frozen=True)
class Placement:
    """The replicas and which robots use them. A slot, `task/0`, is the place of one robot.

    `routes`: slot -> component -> replica; None without a schedule, when any robot may come. `rates_hz`: task ->
    component -> calls per second. `standbys`: replica -> the replicas that may stand in for it, best first.
    `phases`: slot -> component -> when its calls are due. `catch_up`: periods of its rate that a late robot may make up
    for. `adaptive`: robots may act faster than `rates_hz` while the servers' queues allow. `epoch`: the number of the
    schedule, which rises with each that a server adopts; what a worker of an older one says does not count.
    """

    replicas: Mapping[str, Replica]
    routes: Mapping[str, Mapping[str, str]] | None = None
    rates_hz: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    standbys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    phases: Mapping[str, Mapping[str, Phase]] = field(default_factory=dict)
    catch_up: float = 0.0
    adaptive: bool = False
    epoch: int = 0

    def replica_of(self, worker_id: str, model: str) -> str | None:
        """The replica that a worker belongs to; None for an unknown worker."""
        replica = self.replicas.get(replica_name(worker_id))
        if replica is None and self.routes is None:
            replica = self.replicas.get(model)
        return replica.id if replica is not None and replica.model == model else None


def replica_name(worker_id: str) -> str:
    """`gpu0/0.1` -> `gpu0`. A worker's name is that of its replica, its number, and how often it was started."""
    return worker_id.rpartition("/")[0]


def cloud_name(model: str) -> str:
    """The replica of a model in the cloud, where there is no schedule."""
    return f"{model}@cloud"


def unplanned(factory: Factory) -> Placement:
    """The placement of a factory without a schedule."""
    used = {model for task in factory.tasks for model in factory.models_of(task).values()}
    replicas = {}
    for name in sorted(used):
        model = factory.models.get(name)
        workers = model.workers if model is not None else 1
        cloud = model.cloud if model is not None else None
        pool = name if cloud is not None and cloud.workers else ""
        # Nothing is planned, so a worker that batches continuously gets as many calls at a time as it takes.
        replicas[name] = Replica(name, name, name, workers, pool=pool, at_once=UNPLANNED_AT_ONCE)
        if cloud is not None and cloud.workers:
            away = cloud_name(name)
            replicas[away] = Replica(away, name, away, cloud.workers, pool=pool, link_ms=cloud.link_ms)
    return Placement(replicas)
