"""System 2 as stories: its plan is System 1's prompt, asked for in turn or ahead, and the last one when it is late."""

from __future__ import annotations

from rosa_client.runtime.commands import Send
from rosa_client.runtime.machines.task_machine import State
from tests.unit.client.runtime.stage import SYSTEM2, Stage


def test_the_plan_becomes_the_prompt_of_system_1() -> None:
    stage = Stage(SYSTEM2, ratio=0.5)
    stage.start()
    stage.answer(stage.send_of("system2"), text="open the drawer")
    prompts = []
    for _ in range(2):
        request = stage.send_of("system1")
        prompts.append(request.prompt)
        stage.answer(request)
    assert prompts == ["open the drawer"] * 2
    assert [c.component for c in stage.of(Send)] == ["system2", "system1", "system1"]
    stage.send_of("system2")


def test_planning_ahead_asks_while_the_action_before_is_executed() -> None:
    stage = Stage(SYSTEM2, ratio=0.5, planning="ahead")
    stage.start()
    stage.answer(stage.send_of("system2"), text="open")
    stage.answer(stage.send_of("system1"))
    stage.answer(stage.send_of("system1"))
    assert stage.core.state is State.EXECUTING
    ahead = stage.send_of("system2")
    assert stage.core.state is State.EXECUTING, "asked before the second action has ended"
    stage.answer(ahead, text="close")
    following = stage.send_of("system1")
    assert following.prompt == "close", "and nobody waits for a plan"
    stage.answer(following)
    stage.answer(stage.send_of("system1"))
    stage.send_of("system2")
    called = [c.component for c in stage.of(Send)]
    assert called == ["system2", "system1", "system1", "system2", "system1", "system1", "system2"], (
        "as often as in turn"
    )


def test_a_plan_asked_for_ahead_that_takes_longer_than_the_action_is_waited_for() -> None:
    stage = Stage(SYSTEM2, planning="ahead")
    stage.start()
    stage.answer(stage.send_of("system2"), text="open")
    stage.answer(stage.send_of("system1"))
    ahead = stage.send_of("system2")
    stage.run(0.45)  # the action takes 0.4 s, the plan may take 0.5 s
    assert stage.core.state is State.INFERRING
    assert stage.of(Send)[-1] == ahead, "System 1 waits for it"
    stage.answer(ahead, text="close")
    assert stage.send_of("system1").prompt == "close"


def test_a_late_plan_is_replaced_by_the_last_one() -> None:
    stage = Stage(SYSTEM2)
    stage.start()
    stage.answer(stage.send_of("system2"), text="open the drawer")
    stage.answer(stage.send_of("system1"))
    stage.send_of("system2")
    assert stage.send_of("system1").prompt == "open the drawer"
    assert ("use_last_plan", "slo_missed") in stage.actions_taken


def test_without_any_plan_yet_a_late_plan_stops_the_robot() -> None:
    stage = Stage(SYSTEM2)
    stage.start()
    stage.send_of("system2")
    stage.run(0.6)
    assert ("stop_and_resend", "slo_missed") in stage.actions_taken
    assert [c.component for c in stage.of(Send)] == ["system2", "system2"]
