"""What a server needs of whoever starts its workers. The implementations are in `rosa_server/cluster/`, by name."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import ClassVar, Protocol

from rosa_contract.config.factory import Factory
from rosa_contract.errors import CausedError
from rosa_server.plan.placement import Placement
from rosa_server.serving.base.shared_memory import ShmWriter
from rosa_server.serving.base.worker_keys import WorkerKeys
from rosa_server.serving.base.worker_spec import WorkerSpec


class ClusterError(CausedError):
    """The cluster does not do this."""

    CAUSES: ClassVar = {"not_here": "these workers were started without a factory file that describes others"}


class SharesMemory(Protocol):
    def shm(self, worker_id: str) -> ShmWriter | None:
        """Memory shared with a worker on this machine."""


class Cluster(SharesMemory, Protocol):
    """Starts and watches the workers. Nothing in it may wait: the gateway calls it between two messages."""

    # Where workers connect: a ZeroMQ endpoint of this machine that other machines reach, and then each worker has keys;
    # empty: a socket file, for workers of this machine.
    workers_bind: str
    # Why a worker cannot work as configured: a server that has not served yet had better say so and end. Empty: it can.
    misconfigured: str

    def start(self, endpoint: str, keys: WorkerKeys | None) -> None:
        """The gateway listens at `endpoint`: from now on `poll` starts workers. `keys`: issues those of each life."""

    def poll(self, now_s: float) -> list[tuple[str, str]]:
        """(worker id, why) of the workers that ended since the last call; restarts what is due."""

    def ready(self, worker_id: str, now_s: float) -> None:
        """A worker has announced itself. Raises `ValueError` where it is to end: its name is held, or another one has
        taken its place."""

    def kill(self, worker_id: str, reason: str) -> None:
        """End a worker at once; `poll` reports it and another one starts."""

    def hold(self, name: str, held: bool) -> None:
        """Do not start the worker of this name again when it ends, or start it again. A name is an id without life."""

    def change(self, name: str, change: Callable[[WorkerSpec], WorkerSpec]) -> None:
        """The next life of the worker of this name has another spec."""

    def bequeath(self, name: str, change: Callable[[WorkerSpec], WorkerSpec], waits: bool = False) -> str:
        """Start another worker beside the one of this name, with its spec changed. Returns its id.

        Once it is ready (`waits`: once `inherit` says so) the old one is not started again; if it never is, the old one
        stays as it was. Raises `ValueError` where that is under way already.
        """

    def inherit(self, name: str) -> None:
        """The heir that waits takes the place of this worker. Raises `ValueError` where it has ended."""

    def revert(self, name: str) -> None:
        """The heir that took the place of this worker, or waits for it, gives it up: it is not started again when it
        ends, and the old one is, also where it has ended. Raises `ValueError` where there is none."""

    def add(self, placement: Placement, replicas: Collection[str]) -> list[str]:
        """Start the workers of replicas that are new. Returns their names.

        Raises `CausedError` where there is no GPU for them, or this cluster cannot; then none of them is started. A
        cluster that has to ask first reports them as ended where there is no place.
        """

    def room(self) -> int:
        """Further servers that there are GPUs for."""

    def drop(self, name: str) -> list[str]:
        """End a worker for good. Returns the ids of those that ran, which `poll` reports; empty: it did not run."""

    def stop(self, grace_s: float) -> None:
        """End every worker, `grace_s` after it was asked to at the latest. Also right after the constructor."""


ClusterMaker = Callable[[Factory, Placement], Cluster]
