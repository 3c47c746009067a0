"""Orders at one of several gateways: each is carried out by the gateways that it concerns, whichever it was given to.

A drain goes to the node that has the server. A rollout goes from node to node, and ends with the first that refuses it.
Who removes or admits a robot, or cancels, is heard by all, and one that obeys is enough; where one has removed a robot
all others remember its name. A gateway obeys another one as it obeys a person at its own machine: only those with a
gateway's key are heard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from secrets import randbits
from typing import Any, Protocol

from rosa_contract.wire.bounds import MAX_NAME_CHARS, MAX_TEXT_CHARS
from rosa_contract.wire.status import MAX_WORDS
from rosa_contract.wire.watching import Order
from rosa_server.plan.nodes import NodePlan
from rosa_server.plan.peering import PeerOrder, PeerOrderTold
from rosa_server.plan.placement import Placement
from rosa_server.serving.base import log
from rosa_server.serving.core.workers.comparing import WorkerTally
from rosa_server.serving.operations.names import (
    ADMIT,
    CANARY,
    CANCEL,
    DRAIN,
    KNOWN,
    REMOVE,
    ROLLOUT,
    SCHEDULE,
    SHADOW,
    UNDRAIN,
)
from rosa_server.serving.operations.order import Tells

OF_A_SERVER = (DRAIN, UNDRAIN)
OF_A_MODEL = (ROLLOUT, CANARY, SHADOW)
FOR_ALL = (REMOVE, ADMIT, CANCEL)  # it is enough that one of them obeys
NODE_AWAY = "node_away"
NOT_HERE = ("unknown_target", "not_removed", "nothing_at_work")
RELAYED = b"@"  # no watcher's connection: ZeroMQ's names of these begin with a zero
MAX_RELAYED = 64


class Others(Protocol):
    """The other gateways, as a relay needs them."""

    def reaches(self, node: str) -> bool:
        """Whether it is there."""

    def say(self, node: str, message: PeerOrder | PeerOrderTold) -> bool:
        """Without waiting; false where it is lost."""


@dataclass
class _Under:
    """An order of a person here that concerns others, too."""

    order: Order
    todo: list[str]  # nodes that have not begun
    node: str = ""  # the one at work
    ends: list[tuple[str, str, str]] = field(default_factory=list)  # (node, cause, words)


class OrderRelay:
    """Of one gateway. It is what `Operations` tells, in place of `tells`, which speaks to the persons here."""

    def __init__(
        self, nodes: Callable[[], NodePlan], others: Others, tells: Tells, placement: Callable[[], Placement]
    ) -> None:
        """`nodes`, `placement`: as they are now."""
        self._now, self._others, self._tells, self._placement = nodes, others, tells, placement
        self._under: dict[int, _Under] = {}
        self._number = randbits(32)  # others may still answer orders of this gateway's life before
        self._here: list[Order] = []  # to be carried out here

    @property
    def _nodes(self) -> NodePlan:
        return self._now()

    def stop(self, node: str, why: str) -> None:
        """The gateway of this node is to change the schedule no further."""
        self._others.say(node, PeerOrder(0, CANCEL, SCHEDULE, why[:MAX_WORDS], self._nodes.here))

    # -- what persons and other gateways order -------------------------------------------------------------------------

    def step(
        self, orders: Iterable[Order], heard: Iterable[tuple[str, PeerOrder | PeerOrderTold]]
    ) -> list[Order]:
        """Returns what is to be carried out here."""
        for order in orders:
            self._take(order)
        for node, message in heard:
            if isinstance(message, PeerOrder):
                by = f"{message.by} at {node}"[:MAX_NAME_CHARS]
                watcher = RELAYED + node.encode()
                self._here.append(
                    Order(watcher, message.number, message.what, message.target, message.value, by)
                )
            else:
                self._told(node, message)
        for number, one in list(self._under.items()):
            if one.node != self._nodes.here and not self._others.reaches(one.node):
                self._ended(number, one.node, NODE_AWAY, f"the gateway of node {one.node} is not there")
        here, self._here = self._here, []
        return here

    def _take(self, order: Order) -> None:
        nodes = self._concerned(order)
        if nodes == [self._nodes.here]:
            self._here.append(order)
            return
        if len(self._under) >= MAX_RELAYED:
            words = (
                f"{MAX_RELAYED} orders to several gateways, or to others, are at work; wait for one to end"
            )
            self._answered(order, "busy", words)
            return
        self._number += 1
        self._under[self._number] = _Under(order, nodes)
        self._next(self._number)

    def _concerned(self, order: Order) -> list[str]:
        """The nodes that have to do with it, this one first; only this one where no node has."""
        here = self._nodes.here
        if order.what in FOR_ALL:
            return [here, *self._nodes.others]
        replicas = self._placement().replicas.values()
        if order.what in OF_A_MODEL:
            found = {self._nodes.server_on[one.server] for one in replicas if one.model == order.target}
        elif order.what in OF_A_SERVER:
            names = (
                order.target,
                order.target.rpartition("/")[0],
            )  # a worker is its replica's, with a number
            found = {
                self._nodes.server_on[one.server]
                for one in replicas
                if order.target == one.server or one.id in names
            }
        else:
            found = set()
        return [name for name in (here, *self._nodes.others) if name in found] or [here]

    def _next(self, number: int) -> None:
        """Its next node begins."""
        one = self._under[number]
        node = one.node = one.todo.pop(0)
        order = one.order
        if node == self._nodes.here:
            self._here.append(Order(RELAYED, number, order.what, order.target, order.value, order.by))
            return
        asked = PeerOrder(number, order.what, order.target, order.value, order.by)
        if not self._others.reaches(node) or not self._others.say(node, asked):
            self._ended(number, node, NODE_AWAY, f"the gateway of node {node} is not there")

    def _told(self, node: str, message: PeerOrderTold) -> None:
        one = self._under.get(message.number)
        if one is None or one.node != node:
            return
        if message.ended:
            self._ended(message.number, node, message.cause, message.reason)
        else:
            self._tells.going(one.order, f"{node}: {message.reason}")

    def _ended(self, number: int, node: str, cause: str, words: str) -> None:
        one = self._under[number]
        one.ends.append((node, cause, words))
        if one.order.what == REMOVE and not cause and one.order.value != KNOWN:
            self._known(one)
        goes_on = one.order.what in FOR_ALL or not cause
        if one.todo and goes_on:
            self._next(number)
            return
        del self._under[number]
        failed = [end for end in one.ends if end[1]]
        told = one.ends
        if one.order.what in FOR_ALL and len(failed) < len(one.ends):
            # Those who do not know the robot are of no interest where one does; who is away is.
            told = [end for end in one.ends if end[1] not in NOT_HERE]
            failed = []
        if one.todo:
            told = [*told, *((name, "", "was not asked") for name in one.todo)]
        words = "; ".join(f"{name}: {words}" for name, _, words in told)
        self._answered(one.order, failed[0][1] if failed else "", words)

    def _answered(self, order: Order, cause: str, words: str) -> None:
        """The end of an order that concerns others, too. Those who carry it out have it in their logs as well."""
        about: dict[str, Any] = {"what": order.what, "target": order.target, "by": order.by}
        log.event("operation", **about, step="answered", cause=cause, reason=words)
        self._tells.obeyed(order, cause, words)

    def _known(self, one: _Under) -> None:
        """A gateway has removed the robot: the others remember its name, those too that did not know it."""
        one.order = replace(one.order, value=KNOWN)
        again = [node for node, cause, _ in one.ends if cause in NOT_HERE]
        one.todo += again
        one.ends = [end for end in one.ends if end[0] not in again]

    # -- what is told of what is carried out here ----------------------------------------------------------------------

    def going(self, order: Order, words: str) -> None:
        """A step of it is done."""
        if not order.watcher.startswith(RELAYED):
            self._tells.going(order, words)
        elif order.watcher == RELAYED:
            one = self._under.get(order.number)
            if one is not None:
                self._tells.going(one.order, f"{self._nodes.here}: {words}")
        else:
            self._answer(order, PeerOrderTold(order.number, False, "", words[:MAX_TEXT_CHARS]))

    def obeyed(self, order: Order, cause: str, words: str) -> None:
        """It has ended."""
        if not order.watcher.startswith(RELAYED):
            self._tells.obeyed(order, cause, words)
        elif order.watcher == RELAYED:
            if order.number in self._under:
                self._ended(order.number, self._nodes.here, cause, words)
        else:
            self._answer(order, PeerOrderTold(order.number, True, cause, words[:MAX_TEXT_CHARS]))

    def _answer(self, order: Order, told: PeerOrderTold) -> None:
        """What is lost on the way is still in this gateway's log."""
        self._others.say(order.watcher.removeprefix(RELAYED).decode(), told)

    def compare(self, workers: Sequence[str]) -> Mapping[str, WorkerTally]:
        """See `Tells`."""
        return self._tells.compare(workers)

    def compare_no_more(self, workers: Sequence[str]) -> None:
        """See `Tells`."""
        self._tells.compare_no_more(workers)

    def rescheduled(self, about: Mapping[str, Any]) -> None:
        """See `Tells`."""
        self._tells.rescheduled(about)
