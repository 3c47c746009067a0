"""What several gateways of one schedule promise together, each promise defined once; chaos and the tests ask here.

What each of them promises alone is in `dispatch/invariants.py`, and holds for the calls that they forward, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from rosa_server.plan.fleet_plan import FleetPlan
from rosa_server.plan.peering import Beat, Forward, Forwarded, ToPeer
from rosa_server.serving.core.dispatch.invariants import ROUNDING_S, RuleBroken

ONE_SLOT = "one_slot"  # no two robots work with the same slot, and each keeps the one that it has
ONE_GATEWAY = (
    "one_gateway"  # no request is answered by two gateways, and none is taken twice by one that runs it
)
BUDGET_SHRINKS = "budget_shrinks"  # a call is forwarded with what is left of its budget, at the most
ITS_OWN_ANSWER = "its_own_answer"  # what a robot is answered was made for that very request
NO_OLD_EPOCH = (
    "no_old_epoch"  # no answer counts of a schedule in which the replica that was asked was another one
)
ONE_SCHEDULE = "one_schedule"  # no two gateways run different schedules with one number, and it never falls

MAX_REMEMBERED = 50_000
Asked = tuple[str, str, int]  # robot, component, request id


class Made(Protocol):
    """An answer that says which worker has made it."""

    @property
    def node(self) -> str: ...

    @property
    def replica(self) -> str: ...

    @property
    def started(self) -> int:
        """The epoch in which its worker was started."""

    @property
    def epoch(self) -> int:
        """That of the worker's own gateway when it answered."""


@dataclass
class Fleet:
    """Everything that the gateways and robots of one schedule do, as the world sees it."""

    slots: dict[str, str] = field(default_factory=dict)  # robot that is served now -> its slot
    schedules: dict[int, FleetPlan] = field(default_factory=dict)  # by epoch
    adopted: dict[str, list[int]] = field(
        default_factory=dict
    )  # node -> the epochs that its gateway has gone through
    _had: dict[str, str] = field(default_factory=dict)  # robot -> the slot whose proof it has
    _asked: dict[tuple[str, str, int], tuple[int, int]] = field(default_factory=dict)
    _taken: dict[tuple[str, str, str, int], int] = field(default_factory=dict)
    _answered: dict[tuple[str, int], str] = field(
        default_factory=dict
    )  # robot's life, request -> by which worker

    # -- slots ---------------------------------------------------------------------------------------------------------

    def served(self, robot: str, slot: str) -> Iterator[RuleBroken]:
        """A robot has been welcomed, to this slot."""
        had = self._had.get(robot)
        if had is not None and had != slot:
            yield ONE_SLOT, f"{robot} had {had} and now gets {slot}"
        other = next((name for name, one in self.slots.items() if one == slot and name != robot), "")
        if other:
            yield ONE_SLOT, f"{robot} gets {slot}, with which {other} works"
        self.slots[robot] = self._had[robot] = slot

    def unserved(self, robot: str) -> None:
        """Its gateway is lost to it; it has the proof of its slot."""
        self.slots.pop(robot, None)

    def forgets(self, robot: str) -> None:
        """It has lost the proof of its slot."""
        self._had.pop(robot, None)

    # -- answers -------------------------------------------------------------------------------------------------------

    def answered(self, life: str, request_id: int, node: str) -> Iterator[RuleBroken]:
        """A gateway has answered a request of this life of a robot."""
        other = self._answered.setdefault((life, request_id), node)
        if other != node:
            yield ONE_GATEWAY, f"{life}'s request {request_id} is answered by {other} and by {node}"

    def made_for(self, asked: Asked, made: Asked) -> Iterator[RuleBroken]:
        """A gateway answers `asked` with what a worker has made for `made`."""
        if asked != made:
            yield ITS_OWN_ANSWER, f"{asked} is answered with what was made for {made}"

    def ran(self, node: str, epoch: int, made: Made, asked: str = "") -> Iterator[RuleBroken]:
        """A gateway, in `epoch`, counts the answer of a worker. `asked`: the replica that it gave the call to; another
        gateway runs it on any replica of that one's queue in its own schedule, as it does with its own robots' calls.
        """
        asked = asked or made.replica
        what = f"{node} counts in epoch {epoch} what {made.replica} has answered in epoch {made.epoch}"
        one, wanted = self._replica(made.epoch, made.replica), self._replica(made.epoch, asked)
        for earlier in self.adopted.get(made.node, ()):
            if made.started <= earlier <= made.epoch and self._replica(earlier, made.replica) != one:
                yield (
                    NO_OLD_EPOCH,
                    f"{what}; its worker is of epoch {made.started}, in epoch {earlier} it is another one",
                )
        since = [later for later in self.adopted.get(node, ()) if made.epoch < later <= epoch]
        for later in since if made.epoch < epoch else [epoch]:
            if wanted is None or self._replica(later, asked) != wanted:
                yield NO_OLD_EPOCH, f"{what} for {asked}; in epoch {later} that is another one"
        if wanted is not None and (one is None or one[0] != wanted[0]):
            yield NO_OLD_EPOCH, f"{what} for {asked}, which has another model"

    def _replica(self, epoch: int, name: str) -> tuple[str, ...] | None:
        """What its workers are; none where the schedule has none."""
        plan = self.schedules[epoch]
        one = plan.placement.replicas.get(name)
        return (one.model, one.server, one.engine, plan.server_on[one.server]) if one is not None else None

    # -- schedules -----------------------------------------------------------------------------------------------------

    def runs(self, node: str, plan: FleetPlan) -> Iterator[RuleBroken]:
        """A gateway runs this from now on. Its history here is that of its process."""
        gone_through = self.adopted.setdefault(node, [])
        if gone_through and plan.epoch <= gone_through[-1]:
            yield ONE_SCHEDULE, f"{node} runs schedule {plan.epoch} after {gone_through[-1]}"
        gone_through.append(plan.epoch)
        if self.schedules.setdefault(plan.epoch, plan) is not plan:
            yield ONE_SCHEDULE, f"{node} runs another schedule {plan.epoch} than others do"

    # -- what gateways say to each other -------------------------------------------------------------------------------

    def told(self, node: str, to: str, message: ToPeer, left_s: Mapping[int, float]) -> Iterator[RuleBroken]:
        """One gateway says something to another one. `left_s`: forwarded call -> what is left of its budget."""
        if isinstance(message, Forward):
            key = (node, message.life, message.number)
            asked = (message.session, message.request_id)
            if self._asked.setdefault(key, asked) != asked:
                yield ONE_GATEWAY, f"{node} forwards two calls as number {message.number}"
            left_ms = left_s.get(message.number, 0.0) * 1000
            if message.budget_ms > left_ms + ROUNDING_S * 1000:
                words = f"{node} forwards {message.robot_id}'s {message.component} with {message.budget_ms:.3f} ms"
                yield BUDGET_SHRINKS, f"{words} of which {left_ms:.3f} ms are left"
        elif isinstance(message, Forwarded):
            taken = (node, to, message.life, message.number)
            self._taken[taken] = self._taken.get(taken, 0) + 1
            if self._taken[taken] > 1:
                yield ONE_GATEWAY, f"{node} answers {to}'s call {message.number} {self._taken[taken]} times"
        else:
            assert not isinstance(message, Beat) or message.node == node

    def forget(self) -> None:
        """What was long ago cannot come again."""
        for book in (self._asked, self._taken, self._answered):
            _shorten(book)


def _shorten(book: dict[Any, Any]) -> None:
    while len(book) > MAX_REMEMBERED:
        del book[next(iter(book))]
