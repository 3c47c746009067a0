"""What operations are built on: the server that they work on, the names in it, and how each step is told."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from rosa_contract.errors import CausedError
from rosa_contract.wire.watching import Order
from rosa_server.plan.change import Planner
from rosa_server.plan.placement import Placement, replica_name
from rosa_server.serving.base import log
from rosa_server.serving.core.dispatch.core import ServingCore
from rosa_server.serving.core.workers.comparing import WorkerTally
from rosa_server.serving.edge.cluster import Cluster
from rosa_server.serving.operations.live_state import LiveState
from rosa_server.serving.operations.names import ORDERS


class OperationError(CausedError):
    """The server does not do this."""

    CAUSES: ClassVar = {
        "unknown_order": "there is no such order",
        "unknown_target": "there is no server, worker, model, robot or task of this name",
        "nobody_else": "nobody else can run these streams",
        "busy": "another operation is at work on these workers",
        "not_drained": "it is not drained",
        "no_weights": "the model has no weights that could be exchanged, or the new ones are not there",
        "worse": "the new weights do not do as well as the old ones, which serve on",
        "bad_value": "the value of the order cannot be meant",
        "pinned": "the factory file pins the weights by their checksum",
        "not_warm": "what was started did not become ready; what served before serves on",
        "cancelled": "a person has cancelled it",
        "nothing_at_work": "no operation of this name is at work",
        "not_removed": "nobody has removed a robot of this name",
        "no_slots": "there is no schedule: any robot may come, and there is nothing to change",
        "not_admitted": "no server has room for one more robot",
        "node_away": "the gateway of the node that it concerns is not there",
        "internal_error": "a defect of the server ended the operation; its log says where",
        "too_many": "more robots were removed than are remembered",
    }


class Tells(Protocol):
    """Answers whoever gave an order."""

    def going(self, order: Order, words: str) -> None:
        """A step of it is done."""

    def compare(self, workers: Sequence[str]) -> Mapping[str, WorkerTally]:
        """What these workers have answered since they were named first."""

    def compare_no_more(self, workers: Sequence[str]) -> None:
        """Nothing of these is counted apart any more."""

    def rescheduled(self, about: Mapping[str, Any]) -> None:
        """Another schedule runs; this is what is told of it."""

    def obeyed(self, order: Order, cause: str, words: str) -> None:
        """It has ended. `cause`: why it was not carried out; empty: it was."""


@dataclass(frozen=True)
class Site:
    """The server that operations work on. `send_drain`: tells a worker to finish and end."""

    core: ServingCore
    cluster: Cluster
    send_drain: Callable[[str], None]
    count: Callable[[str], None]
    tells: Tells
    planner: Planner | None = None  # none: there is no schedule
    state: LiveState = field(default_factory=LiveState)  # what outlives the server

    def say(self, order: Order, step: str, words: str = "", **fields: Any) -> None:
        """The audit line of a step, its count, and a line for whoever gave the order."""
        self.count(f"{order.what if order.what in ORDERS else 'other'}_{step}")
        told = {name: value for name, value in fields.items() if value}
        log.event("operation", what=order.what, target=order.target, step=step, by=order.by, **told)
        if words:
            self.tells.going(order, words)

    # -- names -----------------------------------------------------------------------------------------------------

    @property
    def placement(self) -> Placement:
        return self.core.router.placement

    def names(self) -> dict[str, tuple[str, str]]:
        """Name of a worker -> (its replica, its server), of the whole placement that this server has workers of."""
        return {
            f"{one.id}/{index}": (one.id, one.server)
            for one in self.placement.replicas.values()
            for index in range(0 if one.node else one.workers)
        }

    def of_server(self, target: str) -> list[str]:
        """The workers of a server of the schedule, or one worker. Raises `OperationError`."""
        known = self.names()
        found = [name for name, of in known.items() if target in (name, *of)]
        if not found:
            names = ", ".join(sorted({server for _, server in known.values()} | set(known)))
            raise OperationError("unknown_target", f"no server or worker {target!r}; there are {names}")
        return found

    def of_model(self, model: str) -> list[str]:
        """The workers of a model. Raises `OperationError`."""
        replicas = self.placement.replicas
        found = [name for name in self.names() if replicas[replica_name(name)].model == model]
        if not found:
            models = ", ".join(sorted({one.model for one in replicas.values()}))
            raise OperationError("unknown_target", f"no model {model!r}; there are {models}")
        return found

    def warm(self, names: Iterable[str]) -> list[str]:
        """Ids of the warm workers of these names."""
        wanted = set(names)
        return [one.worker_id for one in self.core.pool if one.worker_id.rpartition(".")[0] in wanted]
