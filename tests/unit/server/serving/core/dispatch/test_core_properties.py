"""The server's invariants, whatever robots, workers and time do, and in whatever order calls run.

A worker that is told to drop a call still answers it, as cancelled, failed or done: what it says comes later.
"""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from rosa_contract.config.gateway import ORDERS
from rosa_contract.wire import messages as m
from rosa_server.serving.core.dispatch.invariants import of_core
from tests.examples import examples
from tests.unit.server.serving.core.stage import FACTORY, Stage, hello

QUEUE = 3
ROBOTS = ("r1", "r2", "r3", "r4", "r5")
COMPONENTS = {"system1": "policy", "safety": "guard", "monitor": "guard"}


class Server(RuleBasedStateMachine):
    """Random robots, workers that answer, fail, die and come back, and time that jumps."""

    @initialize(order=st.sampled_from(ORDERS))
    def start(self, order: str) -> None:
        factory = FACTORY.replace("gateway: {", f"gateway: {{order: {order}, order_ageing_s: 0.2, ")
        self.stage = Stage(QUEUE, factory).open(*ROBOTS)
        self.accepted: Counter[int] = Counter()
        self.next_id = 0
        self.next_worker = 2
        self.checked = 0
        self.lives = {"p1": "policy", "g1": "guard"}

    @rule(
        robot=st.sampled_from(ROBOTS),
        component=st.sampled_from([*COMPONENTS, "typo"]),
        budget=st.integers(0, 400),
    )
    def send(self, robot: str, component: str, budget: int) -> None:
        known = robot in self.stage.core.sessions.robots
        self.stage.send(robot, self.next_id, component, budget)
        if known:
            self.accepted[self.next_id] += 1
        self.next_id += 1

    @rule(seconds=st.floats(0, 0.3))
    def pass_time(self, seconds: float) -> None:
        self.stage.wait(seconds)

    @rule()
    def long_silence(self) -> None:
        self.stage.wait(12)
        for robot in ROBOTS[:-1]:
            self.stage.core.on_robot(self.stage.now_s, robot.encode(), hello(robot))
        self.stage.settle()

    @rule(robot=st.sampled_from(ROBOTS))
    def leave_and_return(self, robot: str) -> None:
        self.stage.core.on_robot(self.stage.now_s, robot.encode(), m.Bye())
        self.stage.core.on_robot(self.stage.now_s, robot.encode(), hello(robot))
        self.stage.settle()

    @precondition(lambda self: self.next_id)
    @rule(data=st.data(), robot=st.sampled_from([*ROBOTS, "stranger"]))
    def cancel(self, data: st.DataObject, robot: str) -> None:
        """Any number that was ever used: of its own, of another robot's, answered or not."""
        number = data.draw(st.integers(0, self.next_id))
        before = {call.ticket: call for call in self.stage.core.ledger}
        own = {
            ticket
            for ticket, call in before.items()
            if call.request_id == number and call.connection == robot.encode()
        }
        told = len(self.stage.cancelled)
        self.stage.core.on_robot(self.stage.now_s, robot.encode(), m.Cancel(number))
        assert before.keys() - {call.ticket for call in self.stage.core.ledger} == own
        self.stage.settle()
        ended = [answer for answer in self.stage.answers if answer.call.ticket in own]
        assert [answer.status for answer in ended] == ["cancelled"] * len(own)
        for one in self.stage.cancelled[told:]:
            assert set(one.tickets) <= own
            assert self.stage.core.pool.get(one.worker_id) is not None

    @precondition(lambda self: any(self.stage.held.values()))
    @rule(
        data=st.data(),
        inference_ms=st.floats(0, 200),
        bad=st.sampled_from(["", "", "model_error", "cancelled"]),
    )
    def answer(self, data: st.DataObject, inference_ms: float, bad: str) -> None:
        worker = data.draw(st.sampled_from(sorted(w for w, held in self.stage.held.items() if held)))
        if self.stage.core.pool.get(worker) is None:
            self.stage.held.pop(worker)  # ended meanwhile: it answers nothing any more
            return
        size = len(self.stage.held[worker][0].calls)
        errors = [(bad, "nonsense") if bad and index == 0 else ("", "") for index in range(size)]
        self.stage.finish(worker, inference_ms, errors)

    @precondition(lambda self: self.lives)
    @rule(data=st.data())
    def die(self, data: st.DataObject) -> None:
        worker = data.draw(st.sampled_from(sorted(self.lives)))
        del self.lives[worker]
        self.stage.lose(worker)

    @precondition(lambda self: len(self.lives) < 5)
    @rule(
        model=st.sampled_from(["policy", "guard"]),
        max_batch=st.integers(1, 4),
        at_once=st.sampled_from([1, 1, 3]),
    )
    def come(self, model: str, max_batch: int, at_once: int) -> None:
        name = f"w{self.next_worker}"
        self.next_worker += 1
        self.lives[name] = model
        self.stage.worker(name, model, max_batch, at_once)

    @invariant()
    def every_answer_is_the_only_one(self) -> None:
        answered = Counter(answer.call.request_id for answer in self.stage.answers)
        assert not answered - self.accepted, "answered twice, or never accepted"

    @invariant()
    def what_is_not_answered_is_open(self) -> None:
        open_ids = Counter(call.request_id for call in self.stage.core.ledger)
        answered = Counter(answer.call.request_id for answer in self.stage.answers)
        assert answered + open_ids == self.accepted

    @invariant()
    def what_runs_is_in_time_and_on_a_worker_of_its_model(self) -> None:
        for dispatch in self.stage.dispatched[self.checked :]:
            worker = self.lives.get(dispatch.worker_id)
            for call in dispatch.calls:
                assert call.dispatched_s < call.deadline_s
                assert COMPONENTS[call.component] == call.model
                assert worker is None or worker == call.model
        self.checked = len(self.stage.dispatched)

    @invariant()
    def workers_hold_their_credit_and_queues_their_limit(self) -> None:
        assert not list(of_core(self.stage.core, QUEUE))

    def teardown(self) -> None:
        if hasattr(self, "stage"):
            self.stage.core.give_up(self.stage.now_s, "the end")
            self.stage.settle()
            assert Counter(a.call.request_id for a in self.stage.answers) == self.accepted


Server.TestCase.settings = settings(max_examples=examples(75, 150), stateful_step_count=40)
TestServer = pytest.mark.prove(Server.TestCase)
