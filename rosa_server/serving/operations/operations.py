"""What a person does to a running server: who takes the orders, and carries them out step by step.

Nothing here waits: an order is taken or refused at once, then it goes on step by step, and its end is answered. Each
step is an event in the log (`operation`) and counts in `rosa_operations`. No call is lost by any of them: a worker that
retires gets nothing more, finishes what it has, and ends.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from traceback import format_exception
from typing import Any

from rosa_contract.wire.watching import Order
from rosa_server.serving.base import log
from rosa_server.serving.core.forwarding.node import NodeCore
from rosa_server.serving.core.forwarding.succession import LEFT
from rosa_server.serving.operations.draining import Draining
from rosa_server.serving.operations.fleet_reschedule import FleetReschedule
from rosa_server.serving.operations.live_state import MOVED, UnfinishedOrder
from rosa_server.serving.operations.names import (
    ADD_SLOT,
    ADMIT,
    CANARY,
    CANCEL,
    DRAIN,
    ORDERS,
    REMOVE,
    RESCHEDULE,
    RESCHEDULE_DRY_RUN,
    ROLLOUT,
    SCHEDULE,
    SHADOW,
    UNDRAIN,
)
from rosa_server.serving.operations.operation import End, Operation
from rosa_server.serving.operations.order import OperationError, Site
from rosa_server.serving.operations.own_part import OwnPart
from rosa_server.serving.operations.reschedule import Reschedule
from rosa_server.serving.operations.robots import add_slot, admit, remove
from rosa_server.serving.operations.rollout import Rollout

MAX_LISTED = 256  # names of robots


class Operations:
    """Carries out the orders of one server."""

    def __init__(
        self, site: Site, node: NodeCore | None = None, tell: Callable[[str, str], None] | None = None
    ) -> None:
        """What `site.state` has from an earlier server is gone on with as soon as every stream is served. `node`: the
        core, where this is one of several gateways; `tell`: says to that of another node why workers did not start."""
        self._site, self._state, self._node, self._tell = site, site.state, node, tell
        self._part = OwnPart(site, node, self._not_started) if node is not None else None
        self._running: list[Operation] = []
        self._goes_on = False

    def step(self, now_s: float, orders: Iterable[Order], lost: Mapping[str, str] | None = None) -> None:
        """Take new orders and go on with the others. `lost`: workers that have ended since the last step, and why."""
        gone = lost or {}
        if not self._goes_on and self._site.core.router.ready:
            self._goes_on = True
            self._go_on(now_s)
        for order in orders:
            self._obey(now_s, order)
        if self._part is not None:
            self._part.step(bool(self._running or self._state.drained), gone)
        for operation in list(self._running):
            try:
                end = operation.step(now_s, gone)
            except Exception as error:
                end = _broken(operation.order, error)
                operation.let_go(now_s)
            if end is not None:
                self._running.remove(operation)
                self._state.end(operation.order.target)
                self._end(operation.order, end)

    def close(self) -> None:
        """The server ends in order, and with it what is at work."""
        for one in self._running:
            words = "the server ends; its next start begins with its command line"
            self._end(one.order, End("cancelled", words))

    def _not_started(self, node: str, why: str) -> None:
        """Workers of the schedule that runs did not start; whoever changes it goes no further."""
        if node and self._tell is not None:
            self._tell(node, why)
        for one in self._running:
            if isinstance(one, FleetReschedule):
                one.why, one.cancelled = why, True

    def _obey(self, now_s: float, order: Order, done: Collection[str] = ()) -> bool:
        """`done`: what an earlier server has done of it. False where it is refused."""
        try:
            end = self._take(now_s, order, done)
        except OperationError as error:
            self._site.say(order, "refused", cause=error.cause, reason=str(error))
            self._site.tells.obeyed(order, error.cause, str(error))
            return False
        except Exception as error:
            self._end(order, _broken(order, error))
            return False
        if end is not None:
            self._end(order, end)
        return True

    def _go_on(self, now_s: float) -> None:
        """With what was at work when an earlier server was killed."""
        state = self._state
        if state.empty:
            return
        begun = {one.order.target for one in self._running}  # by a person, meanwhile
        slots, unfinished = state.slots, [one for one in state.unfinished if one.target not in begun]
        state.slots = []
        state.settled()
        for task in slots:
            self._obey(now_s, Order(b"", 0, ADD_SLOT, task, "", "a restart"))
        for one in unfinished:
            order = Order(b"", 0, one.what, one.target, one.value, one.by)
            if MOVED in one.done:
                words = (
                    "it is done: every worker had to start anyway, and the server began with the new schedule"
                )
                self._site.say(order, "continued", reason=words)
                state.end(order.target)
                self._end(order, End("", words))
                continue
            done = f", {len(one.done)} workers are done" if one.done else ""
            self._site.say(order, "continued", reason=f"it goes on after a restart{done}")
            if not self._obey(now_s, order, one.done):
                state.end(order.target)

    def at_work(self, now_s: float) -> dict[str, Any]:
        """For those who watch: the operations at work, and what is kept away."""
        running = [
            {
                "what": one.order.what,
                "target": one.order.target,
                "by": one.order.by,
                "for_s": now_s - one.since_s,
                "doing": "is being cancelled" if one.cancelled else one.doing,
            }
            for one in self._running
        ]
        if self._node is not None and self._node.succession.state == LEFT:
            at = f"node {self._node.succession.node}"
            words = f"schedule {self._node.epoch} runs here"
            running.append({"what": RESCHEDULE, "target": SCHEDULE, "by": at, "for_s": 0.0, "doing": words})
        removed = sorted(self._site.core.sessions.removed)[:MAX_LISTED]
        return {"operations": running, "drained": sorted(self._state.drained), "removed": removed}

    def _take(self, now_s: float, order: Order, done: Collection[str]) -> End | None:
        """Begin, or do at once what needs no time. Raises `OperationError`."""
        if order.what == UNDRAIN:
            return self._undrain(order)
        if order.what == CANCEL:
            return self._cancel(now_s, order)
        if order.what == REMOVE:
            return End("", remove(self._site, order, now_s, self._node))
        if order.what in (ADMIT, ADD_SLOT):
            at_once = {ADMIT: admit, ADD_SLOT: add_slot}[order.what]
            return End("", at_once(self._site, order, now_s))
        if order.what == DRAIN:
            self._check_free(order.target, self._site.of_server(order.target))
            self._begin(Draining(self._site, order, now_s))
        elif order.what in (RESCHEDULE, RESCHEDULE_DRY_RUN):
            dry_run = order.what == RESCHEDULE_DRY_RUN
            self._check_free(SCHEDULE, self._site.names())
            if self._node is not None:
                self._begin(FleetReschedule(self._site, self._node, order, now_s, dry_run))
            else:
                self._begin(Reschedule(self._site, order, now_s, dry_run), keep=not dry_run)
        elif order.what in (ROLLOUT, CANARY, SHADOW):
            self._check_free(order.target, self._site.of_model(order.target))
            self._begin(Rollout(self._site, order, now_s, done), done, keep=True)
        else:
            raise OperationError("unknown_order", f"{order.what!r}: expected {', '.join(ORDERS)}")
        return None

    def _check_free(self, target: str, names: Collection[str]) -> None:
        if self._node is not None and self._node.succession.state == LEFT:
            at = self._node.succession.node
            raise OperationError("busy", f"{target}: the gateway of node {at} changes the schedule")
        for one in self._running:
            if one.exclusive or one.names & set(names):
                words = f"{target}: `{one.order.what} {one.order.target}` by {one.order.by} is at work on it"
                raise OperationError("busy", words)

    def _begin(self, operation: Operation, done: Collection[str] = (), keep: bool = False) -> None:
        """`keep`: another server goes on with it if this one is killed."""
        names, order = sorted(operation.names), operation.order
        self._site.say(order, "begun", f"begun with {', '.join(names)}", workers=names)
        if keep:
            self._state.begin(UnfinishedOrder(order.what, order.target, order.value, order.by, list(done)))
        self._running.append(operation)

    def _undrain(self, order: Order) -> End:
        names = self._site.of_server(order.target)
        self._check_free(order.target, names)
        if not self._state.drained & set(names):
            raise OperationError("not_drained", f"{order.target} is not drained")
        for name in names:
            self._site.cluster.hold(name, False)
        self._state.drained -= set(names)
        self._state.save()
        return End("", f"{', '.join(names)} start again")

    def _cancel(self, now_s: float, order: Order) -> End:
        found = [one for one in self._running if one.order.target == order.target]
        if not found:
            work = ", ".join(f"{one.order.what} {one.order.target}" for one in self._running)
            words = f"nothing is at work on {order.target!r}; at work: {work or 'nothing'}"
            raise OperationError("nothing_at_work", words)
        for one in found:
            one.why = order.value
            one.cancel(now_s)
            self._state.end(one.order.target)
        return End("", f"{', '.join(one.order.what for one in found)} of {order.target} is cancelled")

    def _end(self, order: Order, end: End) -> None:
        step = "failed" if end.cause and end.cause != "cancelled" else end.cause or "done"
        self._site.say(order, step, cause=end.cause, reason=end.words)
        self._site.tells.obeyed(order, end.cause, end.words)


def _broken(order: Order, error: Exception) -> End:
    """A defect of ours ends one operation, and never the server."""
    lines = "".join(format_exception(error))
    log.error("operation_broke", what=order.what, target=order.target, by=order.by, traceback=lines)
    what = f"{type(error).__name__}: {error}"
    return End(
        "internal_error", f"a defect of the server ended it midway ({what}); the server's log says where"
    )
