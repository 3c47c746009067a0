"""Watches the chaos: the promises of `rosa_client/runtime/invariants.py` on every command of a robot's core, and those
of `serving/core/dispatch/invariants.py` on every decision of a gateway.
"""

from __future__ import annotations

from collections.abc import Iterable

from rosa_client.runtime.commands import Alert, Command, Play, Send, TaskEnded
from rosa_client.runtime.invariants import Books, Breach, of_state
from rosa_client.runtime.runtime import RobotRuntime
from rosa_contract.config.factory import Factory
from rosa_contract.config.robot import RobotSpec
from rosa_contract.config.tasks import Task
from rosa_contract.wire.messages import Response
from rosa_server.serving.core.dispatch.core import ServingCore
from rosa_server.serving.core.dispatch.invariants import Accounts, RuleBroken, of_core
from rosa_server.serving.core.queueing.actions import Action


class Broken(Exception):
    """A promise did not hold."""

    def __init__(self, rule: str, words: str, now_s: float) -> None:
        super().__init__(f"{now_s:.6f} s: {rule}: {words}")
        self.rule, self.now_s = rule, now_s


class RobotWatch:
    """Everything that one life of a robot does."""

    def __init__(self, name: str, task: Task, spec: RobotSpec, period_s: float) -> None:
        """`period_s`: the longest time between two looks of the core, in s."""
        self._name = name
        self._books = Books(task, spec, period_s)
        self.played_s = -1.0  # the last chunk began
        self.plays = self.calls = self.alerts = self.ends = 0

    def arrives(self, response: Response) -> None:
        """A response is handed to the core next."""
        self._books.arrives(response)

    def decided(self) -> None:
        """An operator's decision is handed to the core next, and the core accepts it."""
        self._books.decided()

    def commands(self, core: RobotRuntime, commands: list[Command], now_s: float) -> None:
        """What the core has just returned, and what it does now. Raises `Broken`."""
        self._none(self._books.commands(commands, now_s), now_s)
        if commands:
            self._none(self._books.differ(core.mission), now_s)
            self._none(of_state(core.mission), now_s)
        for command in commands:
            if isinstance(command, Play):
                self.plays, self.played_s = self.plays + 1, now_s
            self.calls += isinstance(command, Send)
            self.alerts += isinstance(command, Alert)
            self.ends += isinstance(command, TaskEnded)

    def look(self, now_s: float) -> None:
        """Time has passed. Raises `Broken`."""
        self._none(self._books.look(now_s), now_s)

    def _none(self, breaches: Iterable[Breach], now_s: float) -> None:
        for rule, words in breaches:
            raise Broken(rule, f"{self._name} {words}", now_s)


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
