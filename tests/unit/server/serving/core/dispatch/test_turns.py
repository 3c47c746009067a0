"""Several models on one GPU take turns: one batch at a time, by deadline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rosa_server.plan.placement import Placement, Replica
from rosa_server.timing.turns import Turn, whose_turn
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


def placed(**changes: Any) -> Placement:
    """Three models on one GPU."""
    replicas = {
        name: Replica(
            name,
            model,
            "gpu0",
            batch=max(TIMES_MS[name]),
            service_ms=TIMES_MS[name],
            waits=False,
            takes_turns=True,
        )
        for name, model in MODELS.items()
    }
    slot = {name: name for name in MODELS}
    return Placement(replicas, {f"pick/{n}": slot for n in range(len(ROBOTS))}, **changes)


def staged() -> Stage:
    stage = Stage(factory=FACTORY, placement=placed())
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
