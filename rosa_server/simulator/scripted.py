"""Scripted robots: a task's closed loop of calls and actions, without an arm, its safety, and what a fallback moves.

About rates, phases and permits a scripted robot does what production's core does (`rosa_client/runtime/steps.py`). A
call that missed its deadline is made again, except that a robot without a new plan goes on with its last one where the
task says so, and plans again first where the fallback says that. After a missed verdict it stands until one comes in
time, asked for at once: so verdicts that are late make more calls. The next observation comes when the action has
ended, also where a task infers meanwhile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf, nextafter
from random import Random
from typing import Any

from rosa_contract.config.tasks import GOAL_COUPLED, SYSTEM1, SYSTEM2, Task
from rosa_contract.fallbacks import FallbackAction, fallback
from rosa_contract.permits import (
    ASK_PERMIT_EVERY_S,
    MAX_WAIT_FOR_PERMIT_S,
    MIN_WAIT_FOR_PERMIT_S,
    PACE_HOLDS_S,
)
from rosa_contract.way import ShortestWay
from rosa_contract.wire.codec import request_header
from rosa_contract.wire.messages import OK, Hello, Permit, Ready, Response, ToRobot, Welcome
from rosa_server.simulator.fleet import Seat, SimulatedFleet
from rosa_server.simulator.network import IDEAL, Network
from rosa_server.simulator.servers import CALL, Serving

ROUNDING = 1e-9  # of credits, which are sums of call ratios


@dataclass
class Tally:
    """What robots did from `from_s` on."""

    from_s: float = 0.0
    actions: Counter[str] = field(default_factory=Counter)  # by task
    calls: Counter[str] = field(default_factory=Counter)  # by component, in time or not
    late: Counter[str] = field(default_factory=Counter)
    latencies_s: dict[str, list[float]] = field(default_factory=dict)  # of calls in time, by component

    def ended(self, now_s: float, component: str, took_s: float, late: bool) -> None:
        """A call has been answered, or was waited for in vain."""
        if now_s >= self.from_s:
            self.calls[component] += 1
            self.late[component] += late
            if not late:
                self.latencies_s.setdefault(component, []).append(took_s)

    def acts(self, now_s: float, task: str) -> None:
        """A robot begins an action."""
        if now_s >= self.from_s:
            self.actions[task] += 1


class _Component:
    """The calls of one component of one robot."""

    def __init__(self, name: str, slo_ms: float, period_s: float) -> None:
        """`period_s`: of a periodic one; 0 where the round calls it."""
        self.name, self.slo_ms, self.slo_s, self.period_s = name, slo_ms, slo_ms / 1000, period_s
        self.request = -1  # in flight
        self.sent_s, self.deadline_s = -inf, inf
        self.due_s = 0.0  # of a periodic one: when it is called next
        self.sent = 0
        self.turn_s = 0.0  # when the last call had its turn at the rate that the server allows
        self.first_s = -inf  # not called before
        self.asked_s, self.wanted_s, self.permit_s = -inf, inf, -inf

    def end(self) -> None:
        self.request, self.deadline_s = -1, inf


class ScriptedRobot(Seat):
    """`due_s` says when to call `step`; what has to be sent is returned."""

    def __init__(
        self,
        name: str,
        task_name: str,
        task: Task,
        tally: Tally,
        network: Network,
        rng: Random,
        action_variation: float = 0.0,
    ) -> None:
        """`action_variation`: standard deviation of an action's duration, as a share."""
        super().__init__(name.encode(), network, rng)
        self.due_s = inf
        self._task, self._tally, self._random, self._variation = task_name, tally, rng, action_variation
        self._action_s, self._ratio = task.pipeline.action_s, task.pipeline.system2_to_system1_call_ratio
        self._parts = {
            component: _Component(
                component, part.slo_ms, 0.0 if component in GOAL_COUPLED else 1 / (part.freq_hz or 1.0)
            )
            for component, part in task.components.items()
        }
        self._periodic = [part for part in self._parts.values() if part.period_s]
        self._acts, self._plans = self._parts[SYSTEM1], self._parts.get(SYSTEM2)
        self._keeps_plan = (
            self._plans is not None and task.components[SYSTEM2].fallback == FallbackAction.USE_LAST_PLAN.key
        )
        actions = {component: fallback(part.fallback) for component, part in task.components.items()}
        self._stops = {
            component for component, what in actions.items() if what > FallbackAction.USE_LAST_PLAN
        }
        self._forgets = {name for name, what in actions.items() if what >= FallbackAction.STOP_AND_REPLAN}
        self._held: set[str] = set()  # verdicts that it stands for
        self._has_plan = False
        self._credit = 1.0  # plans that are due; grows by the call ratio with each action
        self._wanted: _Component | None = None
        self._acts_until_s = inf
        self._request = 0
        self._way = ShortestWay()
        self._welcome: Welcome | None = None
        self._pace, self._pace_until_s = 1.0, inf

    # -- what it hears -------------------------------------------------------------------------------------------------

    def receive(self, now_s: float, message: ToRobot) -> list[Any]:
        """A message of the gateway."""
        if isinstance(message, Response):
            self._way.answered(now_s, message.request_id, message.queue_ms + message.inference_ms)
            if message.pace:
                self._pace, self._pace_until_s = message.pace, now_s + PACE_HOLDS_S
            for part in self._parts.values():
                if part.request == message.request_id:
                    if message.status == OK and now_s <= part.deadline_s:
                        self._answered(now_s, part)
                    break
        elif isinstance(message, Permit):
            self._parts[message.component].permit_s = now_s
        elif isinstance(message, Welcome):
            begins = self._welcome is None
            self._welcome = message
            for component, start_ms in message.starts_ms.items():
                part = self._parts[component]
                part.first_s = now_s + start_ms / 1000
                part.due_s = max(part.due_s, part.first_s)
            if begins:
                self._wanted = self._next()
        return self.step(now_s)

    def _answered(self, now_s: float, part: _Component) -> None:
        self._tally.ended(now_s, part.name, now_s - part.sent_s, False)
        part.end()
        if part is self._acts:
            self._tally.acts(now_s, self._task)
            longer = 1 + self._variation * self._random.gauss(0.0, 1.0) if self._variation else 1.0
            self._wanted, self._acts_until_s = None, now_s + self._action_s * max(0.0, longer)
        elif part is self._plans:
            self._has_plan, self._credit = True, max(0.0, self._credit - 1)
            self._wanted = self._next()
        elif part.name in self._held:
            self._held.discard(part.name)
            if not self._held:
                self._wanted = self._next()

    def _next(self) -> _Component:
        """Before the first action, and whenever the ratio says so, it plans."""
        return self._acts if self._plans is None or self._credit < 1 - ROUNDING else self._plans

    # -- what it does --------------------------------------------------------------------------------------------------

    def step(self, now_s: float) -> list[Any]:
        """Do what is due."""
        if self._welcome is None:
            return []
        if now_s >= self._pace_until_s:
            self._pace, self._pace_until_s = 1.0, inf
        out: list[Any] = []
        due_s = self._pace_until_s
        if self._acts_until_s <= now_s:
            self._credit += self._ratio
            self._wanted, self._acts_until_s = self._next(), inf
        wanted = self._wanted
        if wanted is None:
            due_s = min(due_s, self._acts_until_s)
        elif wanted.deadline_s < now_s:
            self._missed(now_s, wanted)
            if wanted is self._plans and self._keeps_plan and self._has_plan:
                self._credit = max(0.0, self._credit - 1)
            wanted = self._wanted = self._next()
        if wanted is not None:
            if wanted.request < 0:
                due_s = min(due_s, self._call_in_turn(now_s, wanted, out))
            due_s = min(due_s, nextafter(wanted.deadline_s, inf))
        for part in self._periodic:
            if part.request >= 0:
                if part.deadline_s >= now_s:
                    due_s = min(due_s, nextafter(part.deadline_s, inf))
                    continue
                self._missed(now_s, part)
            if part.due_s <= now_s:
                self._call(now_s, part, out)
                part.due_s += part.period_s * (1 + (now_s - part.due_s) // part.period_s)
            due_s = min(due_s, part.due_s, nextafter(part.deadline_s, inf))
        self.due_s = due_s
        return out

    def _missed(self, now_s: float, part: _Component) -> None:
        self._tally.ended(now_s, part.name, now_s - part.sent_s, True)
        part.end()
        if part.name in self._forgets:
            self._has_plan, self._credit = False, 1.0
        if part.period_s and part.name in self._stops:
            self._stands(now_s, part)

    def _stands(self, now_s: float, verdict: _Component) -> None:
        """What it did and waited for is dropped; the verdict is asked for at once."""
        self._held.add(verdict.name)
        verdict.due_s = now_s
        self._wanted, self._acts_until_s = None, inf
        self._acts.end()
        if self._plans is not None:
            self._plans.end()

    def _call_in_turn(self, now_s: float, part: _Component, out: list[Any]) -> float:
        """Call it with a permit or at the rate that the server allows. Returns when to try again."""
        assert self._welcome is not None
        if not part.permit_s >= part.asked_s > -inf:
            permits = self._pace <= 1 and part.name in self._welcome.permits
            rate_hz = self._welcome.rates_hz.get(part.name, 0.0) * self._pace
            period_s, catch_up_s = 0.0, 0.0
            if rate_hz > 0:
                period_s, catch_up_s = 1 / rate_hz, self._welcome.catch_up / rate_hz
            rate_s = max(part.turn_s, part.sent_s - catch_up_s) + period_s if part.sent else -inf
            turn_s = max(rate_s, part.first_s)
            if permits:
                if now_s >= max(part.asked_s + ASK_PERMIT_EVERY_S, part.first_s):
                    part.asked_s, part.wanted_s = now_s, min(now_s, part.wanted_s)
                    out.append(Ready(part.name))
                allowed_s = max(rate_s, part.wanted_s + MIN_WAIT_FOR_PERMIT_S)
                turn_s = max(min(allowed_s, part.wanted_s + MAX_WAIT_FOR_PERMIT_S), part.first_s)
            if now_s < turn_s:
                ask_s = max(part.asked_s + ASK_PERMIT_EVERY_S, part.first_s) if permits else inf
                return min(turn_s, ask_s)
            part.turn_s = max(rate_s, now_s - catch_up_s) if part.sent else now_s
        else:
            part.turn_s = now_s
        self._call(now_s, part, out)
        return inf

    def _call(self, now_s: float, part: _Component, out: list[Any]) -> None:
        part.asked_s, part.wanted_s = -inf, inf
        self._request += 1
        part.request, part.sent_s, part.deadline_s = self._request, now_s, now_s + part.slo_s
        part.sent += 1
        budget_ms = self._way.sent(now_s, self._request, part.slo_ms)
        out.append(request_header(self._request, part.name, budget_ms))


class ScriptedFleet(SimulatedFleet[ScriptedRobot]):
    """Scripted robots around production's gateway. `tally`: what they did."""

    def __init__(
        self,
        serving: Serving,
        robots: Mapping[str, str],
        tally: Tally,
        network: Network = IDEAL,
        seed: int = 0,
        action_variation: float = 0.0,
        start_s: Callable[[str], float] = lambda _: 0.0,
        watch: Callable[[float, Any], None] | None = None,
    ) -> None:
        """`robots`: name -> task. `start_s`: when a robot says hello, by its name."""
        super().__init__(serving, network, seed, watch=watch)
        self.tally = tally
        rng = Random(f"{seed} robots")
        for name, task in robots.items():
            spec = serving.factory.tasks[task]
            robot = ScriptedRobot(name, task, spec, tally, network, rng, action_variation)
            self._seats[robot.connection] = robot
            self._at(start_s(name), CALL, self._greets, (robot, Hello(name, task, {}, {})))

    def _greets(self, now_s: float, what: tuple[ScriptedRobot, Hello]) -> None:
        self._send(now_s, *what)

    def _wake(self, now_s: float, seat: ScriptedRobot) -> None:
        self._carry(now_s, seat, seat.step(now_s))

    def _to_robot(self, now_s: float, seat: ScriptedRobot, message: ToRobot) -> None:
        self._carry(now_s, seat, seat.receive(now_s, message))

    def _carry(self, now_s: float, robot: ScriptedRobot, messages: list[Any]) -> None:
        for message in messages:
            self._send(now_s, robot, message)
        self._wake_at(now_s, robot, robot.due_s)
