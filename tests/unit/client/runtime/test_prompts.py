"""A goal's words: which component is told them, for how long, and that they are recorded."""

from __future__ import annotations

from rosa_client.runtime.commands import Decision
from rosa_contract.config.prompts import Instruction
from tests.unit.client.runtime.stage import MONITOR, SYSTEM2, Stage


def test_system_1_is_told_what_the_goal_says_and_the_next_goal_begins_anew() -> None:
    stage = Stage(MONITOR)
    stage.start(told=Instruction("take the cup"))
    assert stage.send_of("system1").prompt == "take the cup"
    assert stage.send_of("monitor").prompt == "", "the monitor has its own question"
    said = [one for _, one in stage.events if isinstance(one, Decision) and one.cause == "task_started"]
    assert said[0].reason == "robot: attempt 1; told 'take the cup'"
    stage._note(stage.runtime.cancel(stage.now_s, "enough"))
    stage.start()
    assert stage.send_of("system1").prompt == "default"


def test_system_2_is_told_it_as_well_and_its_plan_still_wins() -> None:
    stage = Stage(SYSTEM2)
    stage.start(told=Instruction("take the cup"))
    request = stage.send_of("system2")
    assert request.prompt == "take the cup"
    stage.answer(request, text="first the lid")
    assert stage.send_of("system1").prompt == "first the lid"
