"""A simulated robot that was stopped comes back only by the steps that a real one asks for, in their order."""

from __future__ import annotations

import itertools

from rosa_sim.controller.power import SHOWN, TRANSITIONS, Event, Power, after


def walk(power: Power, *events: Event) -> Power | None:
    current: Power | None = power
    for event in events:
        assert current is not None
        current = after(current, event)
    return current


def test_a_reflex_is_recovered_in_the_documented_order_and_in_no_other() -> None:
    steps = (Event.CLEAR, Event.START_HARDWARE, Event.ACTIVATE)
    good = []
    for order in itertools.permutations(steps):
        power: Power | None = Power.REFLEX
        for event in order:
            power = after(power, event) if power is not None else None
        if power is Power.RUNNING:
            good.append(order)
    assert good == [steps]


def test_a_stopped_controller_needs_only_to_be_activated() -> None:
    assert walk(Power.RUNNING, Event.DEACTIVATE, Event.ACTIVATE) is Power.RUNNING


def test_only_a_running_robot_has_an_active_controller() -> None:
    assert [power for power in Power if SHOWN[power].controller == "active"] == [Power.RUNNING]
    assert {power for power, _ in TRANSITIONS} == set(Power)
