"""What a robot knows of its gateway: the rates that hold now, and when its first calls may leave."""

from __future__ import annotations

from typing import Any

import pytest

from rosa_client.connection.greeting import Greeting
from rosa_contract.permits import PACE_HOLDS_S
from rosa_contract.wire import messages as m

HELLO = m.Hello("r1", "pick", {}, {})
PLANNED = {"system1": 2.0, "system2": 0.2}


def welcomed(now_s: float = 10.0, **said: Any) -> Greeting:
    greeting = Greeting("tcp://gpu-box:5570", HELLO)
    greeting.heard(now_s)
    greeting.take(m.Welcome({"system1": "policy"}, PLANNED, **said))
    return greeting


def answered(greeting: Greeting, now_s: float, pace: float) -> None:
    greeting.heard(now_s)
    greeting.take(m.Response(1, m.OK, output=m.Output(), pace=pace))


def test_answers_raise_and_lower_the_planned_rates() -> None:
    greeting = welcomed()
    assert greeting.rates_hz == PLANNED
    answered(greeting, 10.1, 1.5)
    assert greeting.rates_hz == {"system1": 3.0, "system2": pytest.approx(0.3)}
    answered(greeting, 10.2, 0.5)
    assert greeting.rates_hz["system1"] == 1.0


def test_without_answers_the_planned_rates_hold_again() -> None:
    greeting = welcomed()
    answered(greeting, 10.0, 4.0)
    greeting.hello_is_due(10.0 + PACE_HOLDS_S)
    assert greeting.rates_hz["system1"] == 8.0
    assert greeting.next_due_s() <= 10.0 + PACE_HOLDS_S + 1e-6, "it will be asked then"
    greeting.hello_is_due(10.0 + PACE_HOLDS_S + 0.01)
    assert greeting.rates_hz == PLANNED


def test_a_server_that_says_nothing_changes_nothing() -> None:
    greeting = welcomed()
    before = greeting.rates_hz
    answered(greeting, 10.1, 0.0)
    assert greeting.rates_hz is before


def test_a_welcome_with_other_rates_keeps_the_pace() -> None:
    greeting = welcomed()
    answered(greeting, 10.1, 2.0)
    greeting.take(m.Welcome({"system1": "policy"}, {"system1": 1.0}))
    assert greeting.rates_hz == {"system1": 2.0}


@pytest.mark.parametrize("moves", [True, False])
@pytest.mark.parametrize("pace", [0.1, 2.0])
def test_the_pace_of_one_gateway_is_over_with_the_next_one_and_with_one_that_was_restarted(
    pace: float, moves: bool
) -> None:
    greeting = welcomed(permits=("system1",))
    answered(greeting, 10.1, pace)
    greeting.lost("disconnected", "the connection has ended")
    answered(greeting, 10.2, pace)  # on its way meanwhile
    if moves:
        greeting.begin_anew("")
    greeting.heard(10.6)
    greeting.take(m.Welcome({"system1": "policy"}, {"system1": 5.0}, permits=("system1",)))
    assert greeting.rates_hz == {"system1": 5.0} and greeting.permits == ("system1",)
    greeting.hello_is_due(20.0)
    assert greeting.rates_hz == {"system1": 5.0}


def test_starts_are_counted_from_the_welcome() -> None:
    greeting = welcomed(10.0, starts_ms={"safety": 250.0}, catch_up=1.0)
    assert greeting.first_call_s == {"safety": 10.25}
    assert greeting.catch_up == 1.0


def test_a_stop_that_came_from_the_gateway_before_is_still_carried_out_after_a_move() -> None:
    greeting = welcomed()
    stop = m.Decide(1, 0, "emergency_stop", "anna", "a hand is in the cell")
    greeting.take(stop)
    greeting.lost("disconnected", "the connection has ended")
    greeting.begin_anew("")
    assert list(greeting.asked) == [stop], "a person has decided it, whichever gateway brought it"
