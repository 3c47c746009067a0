"""The simulated fleet keeps its clock, its promises and its random numbers."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import replace
from math import inf
from typing import Any

import pytest

from rosa_client.runtime.commands import Alert, CallEnded, Send
from rosa_contract.config.factory import parse_factory
from rosa_server.plan.placement import Placement, Replica
from rosa_server.serving.core.queueing.actions import Dispatch, Reply
from rosa_server.simulator.network import Network
from rosa_server.simulator.servers import Serving
from rosa_server.simulator.workers import Gpu
from rosa_server.timing.batches import BatchProfile
from rosa_sim.fleet.measure import Meter
from rosa_sim.fleet.robot import Habits, VirtualRobot
from rosa_sim.fleet.simulation import Joining, Simulation, tasks_of

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
SERVICES = {
    "system1": BatchProfile({1: 40.0, 2: 50.0}),
    "system2": BatchProfile({1: 100.0}),
    "safety": BatchProfile({1: 20.0}),
}


def serving(robots: int, rate_hz: float = 0.0, variation: float = 0.0) -> Serving:
    replicas = {name: Replica(name, model, name, batch=4) for name, model in MODELS.items()}
    routes = {f"pick/{index}": {name: name for name in MODELS} for index in range(robots)}
    rates = {"pick": {"system1": rate_hz}} if rate_hz else {}
    return Serving(FACTORY, Placement(replicas, routes, rates), SERVICES, variation=variation)


class Diary(Meter):
    """Remembers every call and when its robot sent it."""

    def __init__(self, robots: list[Joining], from_s: float = 0.0, to_s: float = 1e9) -> None:
        super().__init__(tasks_of(FACTORY, robots), from_s, to_s)
        self.sends: list[tuple[float, str, str]] = []
        self.ends: list[tuple[float, str, str, str]] = []
        self.alerts: list[tuple[float, str]] = []

    def sent(self, robot: VirtualRobot, send: Send, now_s: float) -> None:
        self.sends.append((now_s, robot.name, send.component))

    def ended(self, robot: VirtualRobot, ended: CallEnded, now_s: float) -> None:
        super().ended(robot, ended, now_s)
        self.ends.append((now_s, robot.name, ended.component, ended.ending))

    def escalated(self, robot: VirtualRobot, alert: Alert, now_s: float) -> None:
        super().escalated(robot, alert, now_s)
        self.alerts.append((now_s, alert.cause))


def fleet(count: int) -> list[Joining]:
    return [Joining(f"robot{index}", "pick", 0.05 * index) for index in range(count)]


def run(count: int, seconds: float, watch: Any = None, **settings: Any) -> tuple[Simulation, Diary]:
    robots = fleet(count)
    made = {key: settings.pop(key) for key in ("rate_hz", "variation") if key in settings}
    diary = Diary(robots)
    simulation = Simulation(serving(count, **made), robots, diary, watch=watch, **settings)
    simulation.run(seconds)
    return simulation, diary


def test_a_round_takes_what_its_parts_take() -> None:
    _, diary = run(1, 20.0)
    times = [now_s for now_s, _, component in diary.sends if component == "system1"]
    gaps = {round(later - earlier, 6) for earlier, later in itertools.pairwise(times)}
    assert gaps == {0.24, 0.34}, "an action and its call, and before every second action a plan"


def test_the_way_to_the_server_and_back_is_part_of_every_call() -> None:
    _, diary = run(1, 5.0, network=Network(latency_ms=7.0))
    assert diary.calls["system1"].percentile_ms(50) == pytest.approx(54.0, abs=1e-3)


def test_robots_keep_to_the_rate_that_their_welcome_names() -> None:
    _, diary = run(1, 30.0, rate_hz=2.0)
    times = [now_s for now_s, _, component in diary.sends if component == "system1"]
    assert min(later - earlier for earlier, later in itertools.pairwise(times)) >= 0.5 - 1e-9


def test_the_same_seed_is_the_same_run_and_another_is_not() -> None:
    def story(seed: int) -> list[Any]:
        _, diary = run(2, 20.0, seed=seed, variation=0.05, network=Network(1.0, 3.0, 0.01))
        return diary.ends

    assert story(1) == story(1)
    assert story(1) != story(2)


def test_a_gateway_that_is_asked_more_often_decides_nothing_else() -> None:
    """So the simulator asks it only when it has heard something, and when it wants to be asked."""

    def story(asked_at_s: Iterable[float]) -> list[Any]:
        told: list[Any] = []

        def watch(now_s: float, action: Any) -> None:
            if isinstance(action, Dispatch):
                told.append((now_s, action.worker_id, [call.ticket for call in action.calls]))
            elif isinstance(action, Reply):
                told.append((now_s, action.status, action.call.ticket, action.call.pace))

        robots, made = fleet(3), serving(3, rate_hz=2.0, variation=0.1)
        replicas = {name: replace(one, at_once=3) for name, one in made.placement.replicas.items()}
        made.placement = replace(made.placement, replicas=replicas, adaptive=True)
        simulation = Simulation(made, robots, Diary(robots), Network(1.0, 3.0, 0.01), watch=watch)
        for time_s in asked_at_s:
            simulation.at(time_s, lambda now_s: None)
        simulation.run(8.0)
        return told

    usual = story([])
    assert len({pace for *_, pace in usual if isinstance(pace, float)}) > 1, (
        "the pace changes, or this shows less"
    )
    assert story(0.0021 * number for number in range(3_800)) == usual


def test_every_call_ends_once_and_every_accepted_request_is_answered_once() -> None:
    answered: list[int] = []
    dispatched: dict[str, int] = {}

    def watch(now_s: float, action: Any) -> None:
        if isinstance(action, Reply):
            answered.append(action.call.ticket)
        elif isinstance(action, Dispatch):
            dispatched[action.worker_id] = dispatched.get(action.worker_id, 0) + 1

    simulation, diary = run(2, 60.0, watch, seed=3, variation=0.3, network=Network(1.0, 40.0, 0.05))
    assert len(answered) == len(set(answered))
    assert set(dispatched) == {"system1/0.1", "system2/0.1", "safety/0.1"}
    open_now = sum(
        calls.in_flight for robot in simulation.robots.values() for calls in robot.core.calls.values()
    )
    assert len(diary.ends) == len(diary.sends) - open_now
    assert {ending for *_, ending in diary.ends} >= {"in_time", "missed"}, (
        "a bad network, or this shows nothing"
    )


def test_a_lost_message_is_a_missed_deadline_and_nothing_worse() -> None:
    simulation, diary = run(1, 60.0, seed=5, network=Network(1.0, 0.0, 0.02), habits=Habits(operator_s=1.0))
    missed = [end for end in diary.ends if end[3] == "missed"]
    assert missed
    assert diary.executed > 150
    assert simulation.robots["robot0"].link.ready


def test_a_lost_server_stops_its_streams_and_comes_back() -> None:
    robots = fleet(2)
    diary = Diary(robots)
    simulation = Simulation(serving(2), robots, diary, habits=Habits(operator_s=0.5))
    simulation.at(5.0, lambda now_s: simulation.lose_server("system1", now_s))
    simulation.at(8.0, lambda now_s: simulation.return_server("system1", now_s))
    simulation.run(20.0)
    good = [
        now_s for now_s, _, component, ending in diary.ends if (component, ending) == ("system1", "in_time")
    ]
    assert any(now_s < 5.0 for now_s in good)
    assert not any(5.1 < now_s < 8.0 for now_s in good)
    assert any(8.0 < now_s < 9.5 for now_s in good), "a person resumes them, and they go on"
    assert "max_consecutive_slo_violation" in {cause for _, cause in diary.alerts}


def test_gpu_time_of_a_lost_server_is_what_it_ran_before_and_after() -> None:
    robots, batches = fleet(1), []

    def watch(now_s: float, action: Any) -> None:
        if isinstance(action, Dispatch) and action.worker_id.startswith("system1"):
            batches.append(now_s)

    simulation = Simulation(serving(1), robots, Diary(robots), habits=Habits(operator_s=0.5), watch=watch)
    simulation.at(10.0, lambda now_s: simulation.lose_server("system1", now_s))
    simulation.at(11.0, lambda now_s: simulation.return_server("system1", now_s))
    simulation.run(20.0)
    assert min(batches) < 10.0 and max(batches) > 12.0
    # One of them was cut short.
    assert 0.04 * (len(batches) - 1) < simulation.gpus["system1"].busy_s < 0.04 * len(batches)


@pytest.mark.parametrize("together", [False, True], ids=["batches", "calls beside each other"])
def test_what_a_gpu_ran_when_it_was_lost_ends_there(together: bool) -> None:
    gpu, always = Gpu(), (0.0, inf)
    if together:
        gpu.busy(1.0, True, always)
    else:
        gpu.take(1.0, 5.0, always)
    gpu.lost(1.5, always)
    assert gpu.busy_s == pytest.approx(0.5)
    assert gpu.take(2.0, 1.0, always) == pytest.approx(3.0)
    gpu.busy(9.0, False, always)
    assert gpu.busy_s == pytest.approx(1.5)


def test_without_a_person_an_escalated_robot_waits() -> None:
    robots = fleet(1)
    diary = Diary(robots)
    simulation = Simulation(serving(1), robots, diary)
    simulation.at(5.0, lambda now_s: simulation.lose_server("system1", now_s))
    simulation.run(30.0)
    assert len(diary.alerts) == 1
    assert max(now_s for now_s, *_ in diary.sends) < 10.0


def test_real_habits_make_rounds_longer_by_a_control_period_and_a_frame_at_most() -> None:
    _, ideal = run(1, 30.0)
    _, real = run(1, 30.0, habits=Habits(control_period_s=0.01, camera_period_s=0.05))
    assert 0.75 * ideal.executed < real.executed < ideal.executed


def test_gpu_time_is_what_the_batches_took() -> None:
    simulation, diary = run(1, 20.0, window=(0.0, 20.0))
    busy_s = simulation.gpus["system2"].busy_s
    assert busy_s == pytest.approx(0.1 * diary.calls["system2"].in_time, abs=0.11)


def test_a_robot_beyond_the_slots_is_refused_and_asks_again() -> None:
    robots = fleet(2)
    diary = Diary(robots)
    one = serving(1)
    simulation = Simulation(replace(one, placement=replace(one.placement)), robots, diary)
    simulation.run(10.0)
    assert simulation.robots["robot0"].link.ready
    assert not simulation.robots["robot1"].link.ready
    assert "admission_off" in simulation.robots["robot1"].link.reason


def test_waiting_for_a_frame_puts_off_no_deadline() -> None:
    """With slow cameras the core waits for a newer frame; a call in flight still ends within one control period."""
    robots = fleet(2)
    diary = Diary(robots)
    lost = Network(latency_ms=0.5, loss=0.4)
    Simulation(serving(2), robots, diary, lost, Habits(0.01, 0.45, 0.5), seed=3).run(60.0)
    began: dict[tuple[str, str], float] = {}
    late_s = []
    for at_s, _, what in sorted(
        [(at_s, 0, (robot, name, "")) for at_s, robot, name in diary.sends]
        + [(at_s, -1, (robot, name, ending)) for at_s, robot, name, ending in diary.ends]
    ):
        robot, name, ending = what
        if not ending:
            began[robot, name] = at_s
        elif ending == "missed":
            slo_s = FACTORY.tasks["pick"].components[name].slo_ms / 1000
            late_s.append(at_s - began[robot, name] - slo_s)
    assert len(late_s) > 20
    assert max(late_s) < 0.0121
