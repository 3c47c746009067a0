"""The search of the arm's side (`rosa_sim/explore/arm_side.py`): its first states are clean, and it sees a broken arm.

`make prove` searches both cells completely, and fails too when a row of `following.py` is never taken.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from rosa_client.loops.control_loop import ControlLoop
from rosa_client.motion import following
from rosa_client.motion.arm_orders import Command, Setpoint
from rosa_client.motion.chunk_player import ChunkPlayer
from rosa_client.motion.following import Event, Follow, Following
from rosa_client.motion.refusal import Refusal
from rosa_sim.explore.arm_side import ARM_CELLS, _lie, _then, key, possible, search_arm
from rosa_sim.explore.arm_world import ArmWorld, ExploredGuard

LED, NOT_LED = ARM_CELLS


@pytest.mark.slow
@pytest.mark.parametrize("cell", ARM_CELLS)
def test_the_first_things_that_can_happen_to_an_arm_break_no_promise(cell: str) -> None:
    found = search_arm(cell, max_states=250)
    assert found.problems == []
    assert found.states > 25
    assert found.transitions > 500
    assert (Follow.NOTHING, Event.NEAR) in found.rows
    assert 0 < found.longest["all is put right"] < 600


def test_a_copy_goes_on_as_the_original_and_leaves_it_alone() -> None:
    """For every event; two worlds that shared something would not."""
    for name, happen in possible(ArmWorld.begin(leads=True)):
        world, again = ArmWorld.begin(leads=True), ArmWorld.begin(leads=True)
        before, copied = key(world), world.copy()
        happen(copied)
        assert key(world) == before, name
        assert copied.loop._player is copied.player and copied.loop._guard is copied.arm._guard
        happen(world)
        happen(again)
        assert key(world) == key(copied) == key(again), name
        assert np.array_equal(world.told, copied.told) and np.array_equal(world.told, again.told), name


# -- a search that finds nothing in a broken arm would prove nothing --------------------------------------------------


def resets_at_a_fault(player: ChunkPlayer, now_s: float, q_rad: Any, fault: Refusal | None) -> None:
    """Takes what is measured for the new setpoint at any fault, as it once did."""
    if fault is not None:
        player._filter.reset(q_rad)
        player._rest()
    player._fault = fault


def lets_all_pass(guard: ExploredGuard, setpoint: Setpoint) -> Command:
    """Checks nothing."""
    still = np.zeros_like(setpoint.q_rad)
    guard.passed = Command(
        setpoint.q_rad, still, setpoint.q_rad, 0.0, setpoint.gripper_m, setpoint.within_s or 0.01
    )
    return guard.passed


def sends_something_else(loop: ControlLoop, now_s: float) -> Command | None:
    """Sends what no check has seen."""
    command = real_command(loop, now_s)
    return None if command is None else dataclasses.replace(command)


def asks_nobody(follow: Following, now_s: float, q_rad: Any, stopped: bool) -> str:
    """Leads an arm on from where it is measured to be although no person has said so."""
    return ""


def latches_only(player: ChunkPlayer, source: str) -> bool:
    """Goes on under an emergency stop."""
    return player.emergency_stop.press(source)


def counts_for_later(follow: Following, now_s: float) -> None:
    """Takes a recovery of an arm that nothing is wrong with for one of its next fault, as it once did."""
    follow._recover_until_s = now_s + following.RECOVER_WITHIN_S


def forgets_that_it_waits(player: ChunkPlayer, now_s: float, q_rad: Any, fault: Refusal | None) -> None:
    """Reports no fault while the setpoints come to rest, and then never goes on, as it once did."""
    if fault is not None:
        player.fail(fault)
    elif player._fault is not None:
        player._fault = player._following.well(now_s, q_rad, player.emergency_stop.latched, 0.04)


def never_near(follow: Following, *_: Any) -> None:
    """Leaves an arm without setpoints once it had a fault."""
    follow._waits = Refusal(following.ELSEWHERE, "put it in order")


def is_there_at_once(follow: Following, now_s: float, there_rad: Any, gripper_m: Any) -> None:
    """Takes the place that it is led to for its setpoint before the command has left, as it once did."""
    real_lead(follow, now_s, there_rad, gripper_m)
    follow._path.reset(there_rad)


real_command = ControlLoop._command
real_lead = Following._lead

RESETS = (ChunkPlayer, "sense", resets_at_a_fault)
UNGUARDED = (ExploredGuard, "check", lets_all_pass)
GUIDED = ("its controller stops", "it is guided by hand", "its controller starts", "a while passes")
RECOVERED = ("a move is ordered", "something holds it", "a while passes", "a person recovers it")
# What is broken, and what happens before the search, so that it is short: nothing in most cases.
BROKEN: list[tuple[str, list[tuple[Any, str, Any]], tuple[str, ...]]] = [
    (LED, [RESETS], ()),
    (NOT_LED, [RESETS], ()),
    (LED, [RESETS, UNGUARDED], ()),
    (NOT_LED, [RESETS, UNGUARDED], ()),
    (LED, [(ControlLoop, "_command", sends_something_else)], ()),
    (LED, [(Following, "_why_not", asks_nobody)], ()),
    (NOT_LED, [(Following, "_why_not", asks_nobody)], ()),
    (LED, [(Following, "_go_on", never_near)], ()),
    (NOT_LED, [(ChunkPlayer, "press_emergency_stop", latches_only)], ("a move is ordered",)),
    (LED, [(Following, "recover", counts_for_later)], ("a person recovers it",)),
    (LED, [(Following, "_lead", is_there_at_once)], GUIDED),
    (NOT_LED, [(ChunkPlayer, "sense", forgets_that_it_waits)], RECOVERED),
]


@pytest.mark.parametrize(
    ("cell", "changes", "story"),
    BROKEN,
    ids=[f"{'+'.join(change.__name__ for *_, change in changes)}, {cell}" for cell, changes, _ in BROKEN],
)
def test_a_broken_arm_is_noticed(
    cell: str,
    changes: list[tuple[Any, str, Any]],
    story: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert not search_arm(cell, max_states=40, story=story).problems
    for where, name, change in changes:
        monkeypatch.setattr(where, name, change)
    assert search_arm(cell, max_states=700, story=story).problems


# -- what is not searched, and why -------------------------------------------------------------------------------------

LIE = "is measured elsewhere from now on"
STORY = (
    *("one sample is wrong", "a person recovers it", LIE, "something holds it", "a while passes"),
    *("a while passes", "its controller stops", "its controller starts", "a while passes"),
)


def lies_during_a_recovery(leads: bool) -> ArmWorld:
    """What becomes of an arm whose measurement begins to lie while a recovery counts."""
    world = ArmWorld.begin(leads)
    for event in STORY:
        assert not world.problems
        happen = dict(possible(world)).get(event)
        assert happen is not None or (event == LIE and not leads), event
        (happen or _then(_lie))(world)
    return world


def test_an_arm_that_can_be_led_bears_a_lie_during_a_recovery() -> None:
    assert not lies_during_a_recovery(leads=True).problems


def test_a_lie_during_a_recovery_is_kept_from_an_arm_that_cannot_be_led_since_it_would_jump() -> None:
    assert any(
        problem.startswith("it is told to move at") for problem in lies_during_a_recovery(False).problems
    )
