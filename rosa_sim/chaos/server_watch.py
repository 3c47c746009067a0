"""Watches the gateway of the chaos: the promises of `serving/core/dispatch/invariants.py`, on each decision."""

from __future__ import annotations

from collections.abc import Iterable

from rosa_contract.config.factory import Factory
from rosa_server.serving.core.dispatch.core import ServingCore
from rosa_server.serving.core.dispatch.invariants import Accounts, RuleBroken, of_core
from rosa_server.serving.core.queueing.actions import Action
from rosa_sim.chaos.robot_watch import Broken


class ServerWatch(Accounts):
    """Everything that one life of a gateway decides."""

    def __init__(self, factory: Factory) -> None:
        super().__init__()
        self._limit = factory.gateway.queue_per_model

    def action(self, now_s: float, action: Action) -> None:
        """What the core has decided. Raises `Broken`."""
        raise_first(self.decided(now_s, action), now_s)

    def ticked(self, now_s: float, core: ServingCore) -> None:
        """The core has done what is due. Raises `Broken`."""
        raise_first(of_core(core, self._limit), now_s)
        raise_first(self.overdue(now_s), now_s)


def raise_first(broken: Iterable[RuleBroken], now_s: float) -> None:
    """Raises `Broken` for the first of them."""
    for rule, words in broken:
        raise Broken(rule, words, now_s)
