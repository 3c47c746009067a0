"""The table of the task's state machine: what is in it, and that everything else is illegal."""

from __future__ import annotations

import pytest

from rosa_client.runtime.machines.machine import IllegalEvent, advance
from rosa_client.runtime.machines.task_machine import TRANSITIONS, Event, State


@pytest.mark.parametrize("state", list(State))
@pytest.mark.parametrize("event", list(Event))
def test_what_is_not_in_the_table_raises(state: State, event: Event) -> None:
    if (state, event) in TRANSITIONS:
        assert advance(TRANSITIONS, state, event) is TRANSITIONS[state, event]
    else:
        with pytest.raises(IllegalEvent):
            advance(TRANSITIONS, state, event)


def test_from_waiting_only_an_operator_leads_to_motion() -> None:
    leaving = {event for (state, event) in TRANSITIONS if state is State.WAITING_FOR_HUMAN}
    assert leaving == {Event.RESUME, Event.RETRY, Event.CLEAR_THE_CELL, Event.FINISH}
