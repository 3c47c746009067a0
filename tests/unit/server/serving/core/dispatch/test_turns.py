"""Several models on one GPU take turns: one batch at a time, by deadline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rosa_server.plan.placement import Placement, Replica
from rosa_server.timing.turns import Turn, leaves_in_time, whose_turn
from tests.unit.server.serving.core.stage import IMAGES, STATE, Stage, codec, m, request

FACTORY = """
server_cluster: {num_servers: 1}
robot_fleet: [{task: pick, num_robots: 4}]
pick:
  pipeline: {action_period_ms: 400, system2_to_system1_call_ratio: 0.1}
  components:
    system1: {model: policy, slo_ms: 300}
    system2: {model: planner, slo_ms: 2000}
    safety: {model: guard, slo_ms: 500, freq_hz: 2}
"""
ROBOTS = tuple(f"r{index}" for index in range(4))
TIMES_MS = {
    "system1": {1: 40.0, 2: 50.0, 4: 80.0},
    "system2": {1: 200.0, 2: 220.0},
    "safety": {1: 20.0, 2: 30.0},
}
MODELS = {"system1": "policy", "system2": "planner", "safety": "guard"}


def placed(told: bool = False, **changes: Any) -> Placement:
    """Three models on one GPU. `told`: robots wait for a permit before they call for System 1 and 2."""
    replicas = {
        name: Replica(
            name,
            model,
            "gpu0",
            batch=max(TIMES_MS[name]),
            service_ms=TIMES_MS[name],
            waits=False,
            takes_turns=True,
            permits=told and name != "safety",
            always_asks=told and name != "safety",
            deadline_aware=told,
        )
        for name, model in MODELS.items()
    }
    if told:
        changes |= {"adaptive": True, "rates_hz": {"pick": {"system1": 1.0, "system2": 0.1, "safety": 2.0}}}
    slot = {name: name for name in MODELS}
    return Placement(replicas, {f"pick/{n}": slot for n in range(len(ROBOTS))}, **changes)


def staged(told: bool = False) -> Stage:
    stage = Stage(factory=FACTORY, placement=placed(told))
    for name in MODELS:
        come(stage, name)
    for robot in ROBOTS:
        assert isinstance(stage.greet(robot), m.Welcome)
    return stage


def come(stage: Stage, name: str, life: int = 1) -> None:
    needs = (IMAGES, STATE) if name == "system1" else ({}, {})
    stage.core.on_ready(stage.now_s, m.WorkerReady(f"{name}/0.{life}", MODELS[name], 64, *needs, 64))
    stage.settle()


def running(stage: Stage) -> list[str]:
    return [worker.partition("/")[0] for worker, held in stage.held.items() for _ in held]


def send(stage: Stage, *calls: tuple[str, str, float]) -> None:
    """(robot, component, budget in ms), all at this instant."""
    for number, (robot, component, budget_ms) in enumerate(calls):
        frames = codec.encode(request(number, component, budget_ms))
        stage.core.on_request(stage.now_s, robot.encode(), codec.read_header(frames), frames)
    stage.settle()


def pass_s(stage: Stage, seconds: float) -> None:
    stage.now_s += seconds
    stage.settle()


def test_one_batch_runs_at_a_time_and_the_next_is_given_when_it_has_ended() -> None:
    stage = staged()
    send(stage, ("r0", "safety", 500))
    assert running(stage) == ["safety"]
    send(stage, ("r0", "system1", 300), ("r1", "system1", 300))
    pass_s(stage, 0.019)  # where a GPU has one model, the next batch comes a moment before this one ends
    assert running(stage) == ["safety"]
    pass_s(stage, 0.011)  # it takes longer than it should
    assert running(stage) == ["safety"]
    stage.finish("safety/0.1")
    assert running(stage) == ["system1"]
    assert len(stage.held["system1/0.1"][0].calls) == 2


def test_a_long_batch_waits_where_it_would_make_another_call_late() -> None:
    stage = staged()
    send(stage, ("r0", "safety", 500))
    send(stage, ("r1", "system2", 2000))  # first in line
    pass_s(stage, 0.01)
    send(stage, ("r2", "system1", 240))  # 200 ms of System 2 and 40 of its own leave no time for the way back
    stage.finish("safety/0.1")
    assert running(stage) == ["system1"]
    stage.finish("system1/0.1")
    assert running(stage) == ["system2"]


def test_first_come_first_served_where_nobody_is_late() -> None:
    stage = staged()
    send(stage, ("r0", "safety", 500))
    send(stage, ("r1", "system2", 2000))
    pass_s(stage, 0.01)
    send(stage, ("r2", "system1", 300))
    stage.finish("safety/0.1")
    assert running(stage) == ["system2"]


def test_when_a_worker_is_lost_another_model_has_its_turn() -> None:
    stage = staged()
    send(stage, ("r0", "system2", 2000))
    send(stage, ("r1", "safety", 500))
    stage.lose("system2/0.1")
    assert running(stage) == ["safety"]
    stage.finish("safety/0.1")
    assert running(stage) == []
    come(stage, "system2", life=2)
    assert running(stage) == ["system2"]


def test_a_call_that_expires_while_another_model_runs_is_answered() -> None:
    stage = staged()
    send(stage, ("r0", "system2", 2000))
    send(stage, ("r1", "safety", 100))
    pass_s(stage, 0.11)
    assert [answer.cause for answer in stage.answers] == ["budget_spent"]


def ask(stage: Stage, robot: str, component: str) -> None:
    stage.core.on_robot(stage.now_s, robot.encode(), m.Ready(component))
    stage.settle()


def permits(stage: Stage) -> list[tuple[str, str]]:
    """(robot, component) of each that was told to call."""
    said = ((say.connection.decode(), say.message) for say in stage.said)
    return [(robot, message.component) for robot, message in said if isinstance(message, m.Permit)]


def test_the_gpu_waits_for_a_call_that_a_robot_was_told_to_make() -> None:
    stage = staged(told=True)
    ask(stage, "r0", "system1")
    assert permits(stage) == [("r0", "system1")]
    pass_s(stage, 0.001)
    send(stage, ("r1", "system2", 2000))  # 200 ms of it would make a call of 40 ms late that has 240
    assert running(stage) == []
    pass_s(stage, 0.001)
    send(stage, ("r0", "system1", 240))
    assert running(stage) == ["system1"]
    stage.finish("system1/0.1", inference_ms=40.0)
    assert running(stage) == ["system2"]


def test_the_gpu_does_not_wait_for_ever_for_a_robot_that_was_told() -> None:
    stage = staged(told=True)
    ask(stage, "r0", "system1")
    send(stage, ("r2", "system2", 2000))
    assert running(stage) == []
    again_s = stage.core.tick(stage.now_s)
    assert stage.now_s < again_s < stage.now_s + 0.05
    pass_s(stage, again_s - stage.now_s + 1e-6)
    assert running(stage) == ["system2"]


def test_nobody_is_told_to_call_where_that_would_make_another_model_late() -> None:
    stage = staged(told=True)
    send(stage, ("r0", "safety", 500), ("r1", "safety", 500))
    assert running(stage) == ["safety"]
    send(stage, ("r2", "safety", 130))  # 200 ms of System 2 would make it late
    ask(stage, "r3", "system2")
    ask(stage, "r3", "system1")  # 40 ms would not
    pass_s(stage, 0.029)
    assert permits(stage) == [("r3", "system1")]
    pass_s(stage, 0.001)
    stage.finish("safety/0.1", inference_ms=30.0)
    assert running(stage) == ["safety"], "it has waited for longer, and leaves System 1 in time"
    pass_s(stage, 0.001)
    send(stage, ("r3", "system1", 300))
    pass_s(stage, 0.019)
    stage.finish("safety/0.1", inference_ms=20.0)
    assert running(stage) == ["system1"]
    pass_s(stage, 0.039)
    assert permits(stage)[-1] == ("r3", "system2")


def test_robots_hear_of_no_rate_at_which_they_need_not_ask() -> None:
    stage = staged(told=True)
    welcomes = [say.message for say in stage.said if isinstance(say.message, m.Welcome)]
    assert {each.permits for each in welcomes} == {("system1", "system2")}
    assert welcomes[0].rates_hz == {"system1": 0.1, "system2": 0.1, "safety": 2.0}


TURNS = st.lists(
    st.builds(Turn, st.floats(-2, 0), st.floats(0, 3), st.floats(0.01, 0.5)), min_size=1, max_size=5
)


def late(now_s: float, turns: Sequence[Turn]) -> int:
    """How many are late when they run in this order."""
    count = 0
    for turn in turns:
        now_s += turn.runs_s
        count += now_s > turn.due_s
    return count


@given(TURNS)
def test_nobody_is_late_where_running_by_deadline_leaves_all_in_time(turns: list[Turn]) -> None:
    now_s, left, order = 0.0, list(turns), []
    everybody_could = late(0.0, sorted(turns, key=lambda turn: turn.due_s)) == 0
    while left:
        order.append(left.pop(whose_turn(now_s, left)))
        now_s += order[-1].runs_s
    assert not everybody_could or late(0.0, order) == 0


@given(TURNS)
def test_what_is_late_in_any_case_runs_last(turns: list[Turn]) -> None:
    chosen = turns[whose_turn(0.0, turns)]
    assert chosen.runs_s <= chosen.due_s or all(turn.runs_s > turn.due_s for turn in turns)


@given(TURNS, st.floats(0.01, 0.5))
def test_a_batch_may_run_first_where_it_makes_nobody_late(turns: list[Turn], runs_s: float) -> None:
    could = [turn for turn in turns if turn.runs_s <= turn.due_s]
    by_due = sorted(could, key=lambda turn: turn.due_s)
    assert leaves_in_time(0.0, runs_s, turns) == (late(runs_s, by_due) == 0)
