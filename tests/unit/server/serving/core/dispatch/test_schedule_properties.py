"""Whatever robots, workers and time do under a real schedule: every stream has one live route, or a clear word."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from rosa_contract.config.factory import Factory, parse_factory
from rosa_contract.config.policies import PUBLISHED, Policies
from rosa_contract.wire import messages as m
from rosa_server.scheduler.placement.schedule import Schedule, schedule_from
from rosa_server.scheduler.problem import problem_from
from rosa_server.scheduler.profiles.options import Options
from rosa_server.scheduler.running.deployment import audit
from rosa_server.scheduler.running.handover import RunningSchedule, hand_over
from rosa_server.scheduler.search.solve import solve
from tests.examples import examples
from tests.unit.server.scheduler.factories import LIBRARY
from tests.unit.server.serving.core.stage import Stage

FACTORY = """
server_cluster: {num_servers: 7, gpu_type: NVIDIA H200}
robot_fleet: [{task: pick, num_robots: 3}, {task: kit, num_robots: 2}]
pick:
  pipeline: {action_period_ms: 200}
  min_action_rate_hz: 2
  components:
    system1: {model: nvidia/GR00T-N1.6-3B, slo_ms: 200}
    monitor: {model: Qwen2.5-VL-7B-Instruct, slo_ms: 2000, freq_hz: 0.5}
kit:
  pipeline: {action_period_ms: 200, system2_to_system1_call_ratio: 0.1}
  min_action_rate_hz: 2
  components:
    system1: {model: nvidia/GR00T-N1.6-3B, slo_ms: 200}
    system2: {model: Qwen2.5-VL-7B-Instruct, slo_ms: 2000}
    safety: {model: Qwen2.5-VL-3B-Instruct, slo_ms: 500, freq_hz: 8}
gateway: {queue_per_model: 3}
"""
ROBOTS = tuple(f"r{index}" for index in range(9))
TASKS = ("pick", "kit")
COMPONENTS = ("system1", "system2", "safety", "monitor")


@cache
def planned() -> tuple[Factory, Schedule]:
    factory = parse_factory(FACTORY)
    schedule = solve(problem_from(factory), LIBRARY, Options(standby=2))
    assert schedule.feasible, schedule.reasons
    return factory, schedule_from(schedule.to_dict())


class Server(RuleBasedStateMachine):
    """Robots that come, send, change their task and leave; workers that die and come back. Each robot has its servers,
    as in the paper."""

    policies = PUBLISHED
    at_once = 1  # of workers whose model batches continuously

    @initialize()
    def start(self) -> None:
        factory, schedule = planned()
        factory = replace(factory, policies=self.policies)
        placement, admission = hand_over(factory, schedule, "plan.json", LIBRARY)
        assert isinstance(admission, RunningSchedule)
        self.admission = admission
        self.stage = Stage(factory=FACTORY, placement=placement, admission=admission)
        self.replicas = {replica.id: replica.model for replica in placement.replicas.values()}
        self.started: dict[str, str] = {}  # worker -> replica
        self.accepted: Counter[int] = Counter()
        self.next_id = 0
        self.told: dict[bytes, Mapping[str, float]] = {}  # connection -> the rates of its last welcome
        for replica in self.replicas:
            self.come(replica)

    @property
    def lives(self) -> dict[str, str]:
        """Worker -> replica of those that neither died nor were ended because they hang."""
        return {w: replica for w, replica in self.started.items() if self.stage.core.pool.get(w) is not None}

    @rule(robot=st.sampled_from(ROBOTS), task=st.sampled_from(TASKS))
    def hello(self, robot: str, task: str) -> None:
        answer = self.stage.greet(robot, task)
        if isinstance(answer, m.Refused):
            assert answer.cause in ("not_ready", "not_admitted"), answer
            assert len(answer.reason) > 20, "a refusal is in words"
            assert robot not in self.stage.core.sessions.robots
        else:
            assert answer.rates_hz["system1"] >= 2 * (1 - 1e-9), "never below min_action_rate_hz"

    @rule(robot=st.sampled_from(ROBOTS))
    def bye(self, robot: str) -> None:
        before = self.routes()
        self.stage.leave(robot)
        live = self.stage.core.router.failover.is_live
        for stream, (planned_replica, now) in self.routes().items():
            assert live(planned_replica) or now == before[stream][1], (
                "a stream was moved to a server that has failed"
            )

    @rule(robot=st.sampled_from(ROBOTS), component=st.sampled_from(COMPONENTS), budget=st.integers(1, 400))
    def send(self, robot: str, component: str, budget: int) -> None:
        if robot in self.stage.core.sessions.robots:
            self.accepted[self.next_id] += 1
        self.stage.send(robot, self.next_id, component, budget)
        self.next_id += 1

    @rule(seconds=st.floats(0, 0.3))
    def pass_time(self, seconds: float) -> None:
        self.stage.wait(seconds)

    @rule()
    def long_silence(self) -> None:
        self.stage.wait(12)

    @precondition(lambda self: any(self.stage.held.values()))
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        worker = data.draw(st.sampled_from(sorted(w for w, held in self.stage.held.items() if held)))
        if self.stage.core.pool.get(worker) is None:
            self.stage.held.pop(worker)
        else:
            self.stage.finish(worker)

    @precondition(lambda self: self.lives)
    @rule(data=st.data())
    def die(self, data: st.DataObject) -> None:
        worker = data.draw(st.sampled_from(sorted(self.lives)))
        replica = self.started.pop(worker)
        before = self.routes()
        stood_in_for = self.stage.core.router.failover.served_by(replica)
        self.stage.lose(worker)
        after = self.routes()
        for (robot, component), (planned_replica, was) in before.items():
            now = after[robot, component][1]
            had_nobody = was not in self.lives.values() and was != replica
            assert now == was or planned_replica in stood_in_for or had_nobody, "a stream that was well moved"

    @precondition(lambda self: len(self.lives) < len(self.replicas))
    @rule(data=st.data())
    def come_back(self, data: st.DataObject) -> None:
        self.come(data.draw(st.sampled_from(sorted(set(self.replicas) - set(self.lives.values())))))

    def come(self, replica: str) -> None:
        self.next_id += 1
        worker = f"{replica}/0.{self.next_id}"
        self.started[worker] = replica
        ready = m.WorkerReady(worker, self.replicas[replica], 16, {}, {}, self.at_once)
        self.stage.core.on_ready(self.stage.now_s, ready)
        self.stage.settle()

    def routes(self) -> dict[tuple[str, str], tuple[str, str]]:
        """(robot, component) -> (planned replica, replica now)."""
        core, found = self.stage.core, {}
        for robot in core.sessions.robots:
            session = core.sessions.get(robot.encode())
            assert session is not None
            for component in session.models:
                planned_replica = core.router.routes_of(session.task, session.slot)[component]
                now = core.router.failover.now(planned_replica)
                found[robot, component] = (planned_replica, now)
        return found

    @invariant()
    def every_stream_has_one_route_to_its_model_live_if_anybody_can_be(self) -> None:
        alive = set(self.lives.values())
        core = self.stage.core
        for (robot, component), (planned_replica, now) in self.routes().items():
            session = core.sessions.get(robot.encode())
            assert session is not None
            assert session.routes[component] == planned_replica
            assert self.replicas[now] == session.models[component]
            if planned_replica in alive:
                assert now == planned_replica
            elif now not in alive:
                busy = {
                    core.router.placement.replicas[h].server for h in core.router.failover._instead.values()
                }
                for standby in core.router.placement.standbys.get(planned_replica, ()):
                    free = core.router.placement.replicas[standby].server not in busy
                    assert standby not in alive or not free, f"{standby} could have stood in"

    @invariant()
    def no_slot_has_two_robots(self) -> None:
        core = self.stage.core
        slots = [session.slot for session in core.sessions]
        assert len(slots) == len(set(slots)) == len(core.sessions.robots)
        assert set(slots) <= set(core.router.placement.routes or ())

    @invariant()
    def as_many_slots_stay_as_were_planned(self) -> None:
        core = self.stage.core
        for entry in planned()[0].robot_fleet:
            slots = [slot for slot in core.router.placement.routes or () if slot.startswith(f"{entry.task}/")]
            assert len(slots) >= entry.num_robots

    @invariant()
    def every_robot_was_told_the_rates_of_now(self) -> None:
        core = self.stage.core
        self.told |= {
            s.connection: s.message.rates_hz for s in self.stage.said if isinstance(s.message, m.Welcome)
        }
        self.stage.said.clear()
        for robot in core.sessions.robots:
            session = core.sessions.get(robot.encode())
            assert session is not None
            assert self.told[session.connection] == core.router.rates_of(session.task)

    @invariant()
    def what_waits_waits_where_its_stream_is_routed(self) -> None:
        routes, replicas = self.routes(), self.stage.core.router.placement.replicas
        for name, queue in self.stage.core.queues.items():
            for call in queue:
                planned_replica, now = routes[call.robot_id, call.component]
                assert (replicas[planned_replica].pool or now) == name == call.queue

    @invariant()
    def workers_take_from_the_queue_of_their_replica_or_of_whom_they_stand_in_for(self) -> None:
        core = self.stage.core
        replicas, instead = core.router.placement.replicas, core.router.failover._instead
        for worker in core.pool:
            pools = [replicas[failed].pool for failed, by in instead.items() if by == worker.replica]
            expected = next(filter(None, pools), replicas[worker.replica].queue)
            assert worker.queue == expected
            assert worker in core.pool.of(expected)
            assert len(worker.batches) <= max(2, worker.at_once), "beyond its credit"

    @invariant()
    def what_runs_is_on_a_worker_of_its_model_within_the_planned_batch(self) -> None:
        for dispatch in self.stage.dispatched:
            for call in dispatch.calls:
                assert self.replicas[dispatch.worker_id.rpartition("/")[0]] == call.model
        self.stage.dispatched.clear()

    @invariant()
    def every_request_has_one_answer_or_is_open(self) -> None:
        answered = Counter(answer.call.request_id for answer in self.stage.answers)
        open_ids = Counter(call.request_id for call in self.stage.core.ledger)
        assert answered + open_ids == self.accepted

    @invariant()
    def what_was_admitted_is_feasible(self) -> None:
        assert audit(self.admission.deployment) == []


class SharedQueues(Server):
    """The same where servers that are alike share a queue, and some workers run several calls at a time."""

    policies = Policies()
    at_once = 3

    @rule()
    def look(self) -> None:
        pools = [replica.pool for replica in self.stage.core.router.placement.replicas.values()]
        assert any(pools.count(pool) > 1 for pool in pools if pool), "servers do share a queue"


Server.TestCase.settings = settings(max_examples=examples(50, 100), stateful_step_count=40)
SharedQueues.TestCase.settings = Server.TestCase.settings
TestServer = pytest.mark.prove(Server.TestCase)
TestSharedQueues = pytest.mark.prove(SharedQueues.TestCase)

FOUR = """
server_cluster: {num_servers: 5, gpu_type: NVIDIA H200}
robot_fleet: [{task: pick, num_robots: 4}]
pick:
  pipeline: {action_period_ms: 200}
  components:
    system1: {model: nvidia/GR00T-N1.6-3B, slo_ms: 200}
    monitor: {model: Qwen2.5-VL-7B-Instruct, slo_ms: 2000, freq_hz: 0.5}
"""


def test_the_place_of_a_robot_on_a_failed_server_is_no_place_for_another() -> None:
    factory = replace(parse_factory(FOUR), policies=PUBLISHED)
    schedule = solve(problem_from(factory), LIBRARY, Options())
    placement, admission = hand_over(factory, schedule, "plan.json", LIBRARY)
    stage = Stage(factory=FOUR, placement=placement, admission=admission)
    for replica in placement.replicas.values():
        stage.core.on_ready(stage.now_s, m.WorkerReady(f"{replica.id}/0.1", replica.model, 16, {}, {}))
    rates = stage.core.router.rates_of("pick")
    robots = [f"r{index}" for index in range(5)]
    assert all(isinstance(stage.greet(robot, "pick"), m.Welcome) for robot in robots), "one more than planned"

    def served() -> dict[str, str]:
        sessions = {robot: stage.core.sessions.get(robot.encode()) for robot in robots}
        return {robot: each.routes["system1"] for robot, each in sessions.items() if each is not None}

    before = served()
    unlucky = next(r for r, replica in before.items() if list(before.values()).count(replica) == 1)
    stage.lose(f"{before[unlucky]}/0.1")
    stage.leave(unlucky)
    assert served() == {robot: replica for robot, replica in before.items() if robot != unlucky}
    stage.core.on_ready(
        stage.now_s, m.WorkerReady(f"{before[unlucky]}/0.2", "nvidia/GR00T-N1.6-3B", 16, {}, {})
    )
    assert len(set(served().values())) == 4, "now the server that has two robots gives one away"
    assert stage.core.router.rates_of("pick") == rates
