"""What a person does to a running server: drain a server of the schedule, give it back, bring in new weights.

Nothing here waits: an order is taken or refused at once, then it goes on step by step, and its end is answered. Each
step is an event in the log (`operation`) and counts in `rosa_operations`. No call is lost by any of them: a worker that
retires gets nothing more, finishes what it has, and ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol

from rosa_contract.errors import CausedError
from rosa_contract.wire.watching import Order
from rosa_server.plan.placement import Placement, replica_name
from rosa_server.serving.base import log
from rosa_server.serving.base.worker_spec import WorkerSpec
from rosa_server.serving.core.dispatch.core import ServingCore
from rosa_server.serving.edge.cluster import Cluster

DRAIN, UNDRAIN, ROLLOUT = "drain", "undrain", "rollout"
WEIGHTS = "weights"
RETIRES_S = 60.0  # a worker that has not ended by then is killed: its calls run elsewhere
WARMS_S = 900.0  # until new weights have to be loaded


class OperationError(CausedError):
    """The server does not do this."""

    CAUSES: ClassVar = {
        "unknown_order": "there is no such order",
        "unknown_target": "there is no server, worker or model of this name",
        "nobody_else": "nobody else can run these streams",
        "busy": "another operation is at work on these workers",
        "not_drained": "it is not drained",
        "no_weights": "the model has no weights that could be exchanged, or the new ones are not there",
        "pinned": "the factory file pins the weights by their checksum",
        "not_warm": "the new weights did not become ready; the old ones serve on",
    }


class Tells(Protocol):
    """Answers whoever gave an order."""

    def obeyed(self, order: Order, cause: str, words: str) -> None: ...


@dataclass
class Retiring:
    """A worker that ends when it has finished."""

    worker_id: str
    until_s: float
    told: bool = False


@dataclass
class Operation:
    """An order that is being carried out. `todo`: names of workers; `heir`: the new one that has to get warm."""

    order: Order
    todo: list[str]
    retiring: list[Retiring] = field(default_factory=list)
    heir: str = ""
    heir_until_s: float = 0.0
    names: frozenset[str] = frozenset()


class Operations:
    """Carries out the orders of one server. `send_drain`: tells a worker to finish and end."""

    def __init__(
        self,
        core: ServingCore,
        cluster: Cluster,
        send_drain: Callable[[str], None],
        count: Callable[[str], None],
        tells: Tells,
    ) -> None:
        self._core, self._cluster, self._send_drain = core, cluster, send_drain
        self._count, self._tells = count, tells
        self._running: list[Operation] = []
        self._drained: set[str] = set()  # names of workers

    def step(self, now_s: float, orders: Iterable[Order], lost: Iterable[str] = ()) -> None:
        """Take new orders and go on with the others. `lost`: workers that have ended since the last step."""
        gone = set(lost)
        for order in orders:
            try:
                self._take(now_s, order)
            except OperationError as error:
                self._say(order, "refused", cause=error.cause, reason=str(error))
                self._tells.obeyed(order, error.cause, str(error))
        for operation in list(self._running):
            self._go_on(now_s, operation, gone)

    # -- taking orders ---------------------------------------------------------------------------------------------

    def _take(self, now_s: float, order: Order) -> None:
        if order.what == UNDRAIN:
            self._undrain(order)
            return
        if order.what not in (DRAIN, ROLLOUT):
            raise OperationError("unknown_order", f"{order.what!r}: expected {DRAIN}, {UNDRAIN} or {ROLLOUT}")
        names = self._of_model(order) if order.what == ROLLOUT else self._of_server(order.target)
        if any(one.names & set(names) for one in self._running):
            raise OperationError("busy", f"{order.target}: another operation is at work on it")
        operation = Operation(order, names, names=frozenset(names))
        if order.what == DRAIN:
            self._check_covered(names)
            for name in names:
                self._cluster.hold(name, True)
            for worker_id in self._warm(names):
                self._retire(now_s, operation, worker_id)
            self._drained |= set(names)
            operation.todo = []
        self._say(order, "begun", workers=names)
        self._running.append(operation)

    def _undrain(self, order: Order) -> None:
        names = self._of_server(order.target)
        if not self._drained & set(names):
            raise OperationError("not_drained", f"{order.target} is not drained")
        for name in names:
            self._cluster.hold(name, False)
        self._drained -= set(names)
        self._say(order, "done", workers=names)
        self._tells.obeyed(order, "", f"{', '.join(names)} start again")

    def _names(self) -> dict[str, tuple[str, str]]:
        """Name of a worker -> (its replica, its server), of the whole placement."""
        return {
            f"{one.id}/{index}": (one.id, one.server)
            for one in self._placement.replicas.values()
            for index in range(one.workers)
        }

    @property
    def _placement(self) -> Placement:
        return self._core.router.placement

    def _of_server(self, target: str) -> list[str]:
        known = self._names()
        found = [name for name, of in known.items() if target in (name, *of)]
        if not found:
            names = ", ".join(sorted({server for _, server in known.values()} | set(known)))
            raise OperationError("unknown_target", f"no server or worker {target!r}; there are {names}")
        return found

    def _of_model(self, order: Order) -> list[str]:
        """The workers of a model whose weights can be exchanged."""
        found = [
            name
            for name in self._names()
            if self._placement.replicas[replica_name(name)].model == order.target
        ]
        if not found:
            models = ", ".join(sorted({one.model for one in self._placement.replicas.values()}))
            raise OperationError("unknown_target", f"no model {order.target!r}; there are {models}")
        if not Path(order.value).is_absolute() or not Path(order.value).exists():
            raise OperationError(
                "no_weights", f"{order.value}: expected the absolute path of a file or folder"
            )
        drained = self._drained & set(found)
        if drained:
            raise OperationError("busy", f"{', '.join(sorted(drained))} is drained; give it back first")
        return found

    def _check_covered(self, names: list[str]) -> None:
        """Raise `OperationError` where streams would be left without a worker."""
        leaving = set(names) | self._drained
        left: dict[str, int] = {}
        for worker in self._core.pool:
            name = worker.worker_id.rpartition(".")[0]
            left[worker.replica] = left.get(worker.replica, 0) + (name not in leaving and not worker.retired)
        empty = {replica_name(name) for name in names if not left.get(replica_name(name))}
        for replica in empty:
            own = self._placement.replicas[replica]
            if not own.standby and not self._core.router.failover.covered(replica, empty):
                words = f"nobody else can run the streams of {replica}: no other worker, and no warm standby"
                raise OperationError("nobody_else", words)

    # -- carrying out ----------------------------------------------------------------------------------------------

    def _go_on(self, now_s: float, operation: Operation, gone: set[str]) -> None:
        for one in list(operation.retiring):
            worker = self._core.pool.get(one.worker_id)
            if worker is None:
                operation.retiring.remove(one)
                self._say(operation.order, "ended", worker=one.worker_id)
            elif now_s > one.until_s:
                self._cluster.kill(one.worker_id, "it retired and did not end")
                one.until_s = now_s + RETIRES_S
            elif not worker.batches and not one.told:
                one.told = True
                self._send_drain(one.worker_id)
        if operation.order.what == ROLLOUT:
            self._roll(now_s, operation, gone)
        elif not operation.retiring:
            self._finish(operation, "", f"{operation.order.target} is drained")

    def _roll(self, now_s: float, operation: Operation, gone: set[str]) -> None:
        order, heir = operation.order, operation.heir
        if heir and (heir in gone or now_s > operation.heir_until_s):
            if heir not in gone:
                self._cluster.kill(heir, "it was not ready in time")
            words = f"{heir} did not become ready; what serves goes on as it was"
            self._finish(operation, "not_warm", words)
        elif heir and self._core.pool.get(heir) is not None:
            name = heir.rpartition(".")[0]
            self._say(order, "warm", worker=heir)
            operation.heir = ""
            for worker_id in self._warm([name]):
                if worker_id != heir:
                    self._retire(now_s, operation, worker_id)
        elif not heir and not operation.retiring and operation.todo:
            name = operation.todo.pop(0)
            try:
                operation.heir = self._cluster.bequeath(name, lambda spec: with_weights(spec, order.value))
            except OperationError as error:
                self._finish(operation, error.cause, str(error))
                return
            except ValueError as error:
                self._finish(operation, "busy", str(error))
                return
            operation.heir_until_s = now_s + WARMS_S
            self._say(order, "started", worker=operation.heir)
        elif not heir and not operation.retiring:
            words = f"{order.target} runs {order.value}; change its weights in the factory file too"
            self._finish(operation, "", words)

    def _warm(self, names: list[str]) -> list[str]:
        return [one.worker_id for one in self._core.pool if one.worker_id.rpartition(".")[0] in names]

    def _retire(self, now_s: float, operation: Operation, worker_id: str) -> None:
        self._core.retire(now_s, worker_id, operation.order.what)
        operation.retiring.append(Retiring(worker_id, now_s + RETIRES_S))
        self._say(operation.order, "retired", worker=worker_id)

    def _finish(self, operation: Operation, cause: str, words: str) -> None:
        self._running.remove(operation)
        self._say(operation.order, "failed" if cause else "done", cause=cause, reason=words)
        self._tells.obeyed(operation.order, cause, words)

    def _say(self, order: Order, step: str, **fields: Any) -> None:
        """The audit line."""
        self._count(f"{order.what if order.what in (DRAIN, UNDRAIN, ROLLOUT) else 'other'}_{step}")
        told = {name: value for name, value in fields.items() if value}
        log.event("operation", what=order.what, target=order.target, step=step, by=order.by, **told)


def with_weights(spec: WorkerSpec, weights: str) -> WorkerSpec:
    """The same worker with other weights.

    Raises `OperationError` where it has none, or where only certain ones may be used.
    """
    if WEIGHTS not in spec.options:
        raise OperationError("no_weights", f"models.{spec.model} has no option {WEIGHTS}")
    if spec.sha256:
        words = (
            f"models.{spec.model}.sha256 names the files that may be used; change the factory file instead"
        )
        raise OperationError("pinned", words)
    return replace(spec, options={**spec.options, WEIGHTS: weights})
