"""The simulated fleet with a fault plan: what goes wrong is put between the parts, and both watches look on."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any

from rosa_contract.wire.codec import request_header
from rosa_sim.chaos.plan import RESCHEDULED, Fault, Plan
from rosa_sim.chaos.servers import FaultyServers
from rosa_sim.chaos.watch import Broken
from rosa_sim.fleet.simulation import Joining

LOOKS_EVERY_S = 0.25  # at robots that say nothing
ENDS_WITHIN_S = 90.0  # after the last fault: 60 s to connect, 30 s for a worker that hangs
FORGETS_AFTER_S = 30.0
FOREIGN = 1_000_000_000  # request ids of a hasty robot's extra requests


class ChaosWorld(FaultyServers):
    """One run of a plan. Whatever breaks a promise raises `Broken`."""

    def __init__(self, plan: Plan) -> None:
        self._foreign = FOREIGN
        super().__init__(plan)
        factory = self._serving.factory
        self._models = {task: factory.models_of(task) for task in factory.tasks}
        rng = Random(f"start {plan.seed}")
        together = rng.random() < 0.5
        for entry in factory.robot_fleet:
            for index in range(entry.num_robots):
                name = f"{entry.task}-{index}"
                self._numbers[name] = len(self._numbers)
                self.join(Joining(name, entry.task, 0.0 if together else rng.random(), 0.0))
        for fault in plan.faults:
            self.at(fault.at_s, partial(self._begin_fault, fault))
            self.at(fault.at_s + fault.lasts_s, partial(self._end_fault, fault))
        self.at(LOOKS_EVERY_S, self._look)

    # -- the run -------------------------------------------------------------------------------------------------------

    def play(self) -> None:
        """Run the plan, then wait until every task has ended. Raises `Broken`."""
        self.run(self.plan.seconds)
        self.calm = True
        for seat in self._live():
            seat.robot.no_person()
        while waiting := [seat.robot for seat in self._live() if not self._settled(seat.robot)]:
            if self.now_s > self.plan.seconds + ENDS_WITHIN_S:
                one = waiting[0]
                words = f"{one.name} is {one.core.state.value}, {ENDS_WITHIN_S:g} s after the last fault"
                raise Broken("every_task_ends", words, self.now_s)
            self.run(self.now_s + 1.0)

        self._book()

    def _look(self, now_s: float) -> None:
        for seat in self._live():
            seat.robot.watch.look(now_s)
        if round(now_s / LOOKS_EVERY_S) % 40 == 0:
            self.watching.forget_answered(now_s - FORGETS_AFTER_S)
        self.at(now_s + LOOKS_EVERY_S, self._look)

    # -- faults --------------------------------------------------------------------------------------------------------

    def _begin_fault(self, fault: Fault, now_s: float) -> None:
        self.counts[fault.kind] += 1
        self._now.append(fault)
        if fault.kind == "worker_killed":
            for server in self._hit_servers(fault):
                self._end_workers(server, now_s, fault.amount)
        elif fault.kind == "gateway_restarted":
            self._gateway_dies(now_s)
        elif fault.kind == RESCHEDULED:
            self._reschedule(fault, now_s)
        elif fault.kind == "robot_restarted":
            for seat in [s for s in self._live() if self._hits(fault, s)]:
                self._switch_off(seat, now_s)
        elif fault.kind == "robot_hasty":
            self._hurry(fault, now_s)

    def _end_fault(self, fault: Fault, now_s: float) -> None:
        self._now.remove(fault)
        if fault.kind == "worker_killed":
            for server in self._hit_servers(fault):
                self._warm(server)
        elif fault.kind == "gateway_restarted":
            self._gateway_returns(now_s)
        elif fault.kind == RESCHEDULED:
            self._schedule_returns(fault, now_s)
        elif fault.kind == "robot_restarted":
            here = {seat.robot.name for seat in self._live()}
            for name, index in self._numbers.items():
                down = any(f.kind == fault.kind and self._hits_number(f, index) for f in self._now)
                if name not in here and not down:
                    self._switch_on(name, now_s)

    def _hurry(self, fault: Fault, now_s: float) -> None:
        """Requests beside the robot's own, as from a client that knows no rates."""
        if fault not in self._now:
            return
        for seat in self._live():
            if self._hits(fault, seat):
                for name, part in seat.robot.core.task.components.items():
                    self._foreign += 1
                    header = request_header(self._foreign, name, part.slo_ms)
                    self._send(now_s, seat, header)
        self.at(now_s + 1 / fault.amount, partial(self._hurry, fault))

    def _connection_ended(self, now_s: float, seat: Any) -> None:
        if not self._down:
            self.core.on_gone(now_s, seat.connection)

    def _to_gateway(self, now_s: float, seat: Any, message: Any) -> None:
        if self._down or id(seat) in self._dead:
            return
        session = self.core.sessions.get(seat.connection)
        if type(message) is dict and session is not None:
            models = self._models[session.task]
            key = (seat.connection, message["request_id"])
            self.watching.request(now_s, key, models.get(message["component"], ""), message["budget_ms"])
        super()._to_gateway(now_s, seat, message)
