"""Scripted robots do what production's robots do, as far as the servers can tell."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from rosa_contract.config.factory import parse_factory
from rosa_contract.config.tasks import Task
from rosa_contract.wire.messages import Response, Welcome
from rosa_server.plan.placement import Phase, Placement, Replica
from rosa_server.scheduler.placement.schedule import task_of
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_server.simulator.network import IDEAL, Network
from rosa_server.simulator.scripted import ScriptedFleet, ScriptedRobot, Tally
from rosa_server.simulator.servers import Serving
from rosa_server.timing.batches import BatchProfile
from rosa_sim.fleet.execute import execute
from rosa_sim.fleet.scenario import RANDOM, load_scenario
from rosa_sim.fleet.systems import ROSA, fleet_of, system_of, without_limits

FACTORY = parse_factory("""
server_cluster: {num_servers: 3}
robot_fleet: [{task: pick, num_robots: 2}]
pick:
  pipeline: {action_period_ms: 200, system2_to_system1_call_ratio: 0.5}
  components:
    system1: {model: policy, slo_ms: 100}
    system2: {model: planner, slo_ms: 500, fallback: use_last_plan}
    safety: {model: guard, slo_ms: 100, freq_hz: 2}
""")
MODELS = {"system1": "policy", "system2": "planner", "safety": "guard"}
GUARD_MS = {1: 35.0, 2: 50.0, 4: 80.0}
TIMES_MS = {"system1": {1: 40.0, 2: 50.0}, "system2": {1: 100.0}, "safety": {1: 20.0}}


def serving(rate_hz: float = 0.0, permits: bool = False, **times_ms: dict[int, float]) -> Serving:
    known = {**TIMES_MS, **times_ms}
    replicas = {
        name: Replica(name, model, name, batch=4, service_ms=known[name], permits=permits)
        for name, model in MODELS.items()
    }
    rates = {"pick": {"system1": rate_hz}} if rate_hz else {}
    placement = Placement(replicas, {"pick/0": {name: name for name in MODELS}}, rates, adaptive=permits)
    return Serving(FACTORY, placement, {name: BatchProfile(known[name]) for name in MODELS})


def of_task(**pipeline: float) -> Serving:
    """With a task whose pipeline is another one."""
    task = FACTORY.tasks["pick"]
    other = replace(task, pipeline=replace(task.pipeline, **pipeline))
    return replace(serving(), factory=replace(FACTORY, tasks={"pick": other}))


def played(of: Serving, seconds: float = 20.0, network: Network = IDEAL) -> Tally:
    tally = Tally()
    robots = {slot: task_of(slot) for slot in of.placement.routes or ()}
    ScriptedFleet(of, robots, tally, network).run(seconds)
    return tally


def test_a_round_is_the_action_its_answer_and_a_part_of_a_plan() -> None:
    tally = played(serving(), 29.0)
    rounds = 29.0 / (0.2 + 0.04 + 0.1 / 2)
    assert tally.actions["pick"] == pytest.approx(rounds, abs=1)
    assert tally.calls["system2"] == pytest.approx(rounds / 2, abs=1)
    assert tally.calls["safety"] == 58, "twice a second"
    assert not tally.late.total()


def test_the_way_to_the_gateway_and_back_is_part_of_each_call() -> None:
    tally = played(serving(), network=Network(5.0))
    assert tally.actions["pick"] == pytest.approx(20.0 / (0.2 + 0.05 + 0.11 / 2), abs=1)
    assert tally.latencies_s["system1"][0] == pytest.approx(0.05)


def test_it_keeps_to_the_rate_of_its_schedule() -> None:
    assert played(serving(rate_hz=2.0)).actions["pick"] == pytest.approx(40, abs=1)


def test_with_permits_it_is_as_fast_as_its_round() -> None:
    tally = played(serving(rate_hz=2.0, permits=True))
    assert tally.actions["pick"] > 1.5 * 40


def test_a_late_call_is_counted_once_and_made_again() -> None:
    tally = played(serving(system1={1: 150.0}), 10.0)
    assert tally.actions["pick"] == 0
    assert tally.calls["system1"] == tally.late["system1"] > 50


def test_who_misses_a_verdict_stands_until_one_comes_in_time() -> None:
    tally = played(serving(safety={1: 150.0}), 10.0)
    assert tally.actions["pick"] <= 1, "it has begun before the first verdict was late"
    assert tally.late["safety"] == tally.calls["safety"] > 90, "it is asked for again at each deadline"
    lossy = played(serving(), 60.0, Network(0.0, 0.0, loss=0.05))
    assert 0.5 < lossy.actions["pick"] / played(serving(), 60.0).actions["pick"] < 0.95


@pytest.mark.parametrize("latency_ms", [0.0, 5.0, 20.0])
def test_a_server_that_is_behind_answers_as_many_in_time_however_long_the_way_is(latency_ms: float) -> None:
    """Thirty robots ask for verdicts 3 times a second, within 150 ms; a server runs 50 in a second. A robot that
    misses one asks again at once. By a budget that had the way in it, each answer came just in time for the server."""
    of = serving()
    routes = {f"pick/{number}": {name: name for name in MODELS} for number in range(30)}
    tasks = {"pick": replace(FACTORY.tasks["pick"], components=dict(FACTORY.tasks["pick"].components))}
    safety = replace(tasks["pick"].components["safety"], slo_ms=150.0 + 2 * latency_ms, freq_hz=3.0)
    tasks["pick"].components["safety"] = safety
    factory = replace(FACTORY, tasks=tasks)
    guard = replace(of.placement.replicas["safety"], batch=None, at_once=4, service_ms=GUARD_MS)
    placement = replace(of.placement, routes=routes, replicas={**of.placement.replicas, "safety": guard})
    of = replace(of, factory=factory, placement=placement)
    of = replace(of, services={**of.services, "safety": guard.times}, variation=0.03)
    tally = played(of, 30.0, Network(latency_ms))
    served_hz = (tally.calls["safety"] - tally.late["safety"]) / 30.0
    assert served_hz > 0.85 * 50, "what one server runs"


@pytest.mark.parametrize("ratio", [1.0, 0.7, 0.4, 0.1])
def test_it_plans_as_often_as_its_task_says(ratio: float) -> None:
    tally = played(of_task(system2_to_system1_call_ratio=ratio), 100.0)
    assert tally.calls["system2"] == pytest.approx(ratio * tally.actions["pick"], abs=2)


def test_without_a_first_plan_it_asks_for_one_again_and_does_not_act() -> None:
    tally = played(serving(system2={1: 900.0}), 10.0)
    assert tally.late["system2"] == tally.calls["system2"] >= 19
    assert not tally.actions


class Round:
    """One scripted robot whose calls are answered when the test says so."""

    def __init__(self, task: Task) -> None:
        self.robot = ScriptedRobot("pick-0", "pick", task, Tally(), IDEAL, Random(0))
        self.now_s = 0.0
        self.calls = self.robot.receive(0.0, Welcome(MODELS))

    def asks(self) -> str:
        """Which of System 1 and 2 it asks next."""
        while True:
            for call in self.calls:
                if call["component"] != "safety":
                    return str(call["component"])
                self._answer(call)
                break
            else:
                self.now_s = self.robot.due_s
                self.calls = self.robot.step(self.now_s)

    def answers(self) -> str:
        """Answer it; what it asks then."""
        self._answer(next(call for call in self.calls if call["component"] == self.asks()))
        return self.asks()

    def misses(self) -> str:
        """Let it wait in vain; what it asks then."""
        self.calls = [call for call in self.calls if call["component"] == "safety"]
        return self.asks()

    def _answer(self, call: dict[str, Any]) -> None:
        self.calls = [one for one in self.calls if one is not call]
        self.calls += self.robot.receive(self.now_s, Response(call["request_id"], "ok"))


def test_without_a_new_plan_it_goes_on_with_the_last_one() -> None:
    one = Round(FACTORY.tasks["pick"])
    assert one.asks() == "system2"
    assert [one.answers() for _ in range(3)] == ["system1", "system1", "system2"]
    assert one.misses() == "system1"


def test_a_missed_action_whose_fallback_plans_again_does() -> None:
    task = FACTORY.tasks["pick"]
    acts = replace(task.components["system1"], fallback="stop_and_replan")
    one = Round(replace(task, components={**task.components, "system1": acts}))
    assert one.answers() == "system1"
    assert one.misses() == "system2"
    assert one.misses() == "system2", "the last plan is forgotten"
    assert one.answers() == "system1"


def test_first_calls_keep_the_phases_of_the_schedule() -> None:
    of = serving()
    phases = {"pick/0": {"system2": Phase(2.0, 1.5)}}
    of = replace(of, placement=replace(of.placement, phases=phases))
    assert played(of, 1.5).calls["system2"] == 0
    assert played(of, 1.7).calls["system2"] == 1


@pytest.mark.slow
@pytest.mark.parametrize(("scenario", "robots"), [("p4", 32), ("mix2", 16)])
def test_a_fleet_acts_as_often_as_one_of_production_s_robots(scenario: str, robots: int) -> None:
    loaded = load_scenario(scenario)
    factory = fleet_of(without_limits(loaded.factory), robots)
    system = system_of(ROSA, factory, ProfileLibrary(), 0.03)
    assert system.serving is not None
    tally = Tally(5.0)
    slots = {slot: task_of(slot) for slot in system.serving.placement.routes or ()}
    ScriptedFleet(system.serving, slots, tally, Network(0.5)).run(15.0)
    lived = execute(replace(loaded.scenario, warm_up_s=5.0, seconds=10.0), factory, system, RANDOM, 0)
    assert tally.actions.total() / 10.0 == pytest.approx(lived.executed_hz, rel=0.02)
    assert not tally.late.total()


def test_a_pace_that_ends_at_the_instant_at_which_it_is_looked_at_ends_there() -> None:
    """`rosa plan` never came back: at that instant nothing was due but to look again at the same instant."""
    task = replace(
        FACTORY.tasks["pick"], pipeline=replace(FACTORY.tasks["pick"].pipeline, action_period_ms=9000.0)
    )
    robot = ScriptedRobot("pick-0", "pick", task, Tally(), IDEAL, Random(0))
    sent = robot.receive(0.0, Welcome(MODELS))
    (plan,) = (each["request_id"] for each in sent if each["component"] == "system2")
    sent = robot.receive(0.1, Response(plan, "ok", pace=20.0))
    (action,) = (each["request_id"] for each in sent if each["component"] == "system1")
    robot.receive(0.2, Response(action, "ok", pace=20.0))
    now_s, looks = 0.2, 0
    while now_s < 8.0:
        looks, now_s = looks + 1, robot.due_s
        robot.step(now_s)
        assert robot.due_s > now_s, "there is something to do at every instant at which it is woken"
    assert looks < 100
