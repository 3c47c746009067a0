"""The search of everything that can happen (`rosa_sim/explore`): it ends, it is clean, and it sees a broken core.

Here are the smallest cells (`SMALL`, and one more in `test_keys.py`), completely, and for the rows of the tables the
first states of some others (`FIRST_STATES`; breadth first, so what lies fewest events from the start). `make prove`
searches every cell completely, and fails too when a row is never taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from functools import cache
from math import inf
from typing import Any

import pytest

from rosa_client.runtime import ahead, checks, choices, ladder, responses, runtime, steps
from rosa_client.runtime.calls import ComponentCalls, Ending
from rosa_client.runtime.machines import machine
from rosa_client.runtime.machines.machine import advance
from rosa_client.runtime.machines.side_machines import Safety, Unfinished, UnfinishedEvent
from rosa_client.runtime.machines.task_machine import Event, State
from rosa_client.runtime.mission import Mission
from rosa_client.runtime.parts.holds import Holds
from rosa_client.runtime.parts.sight import Sight
from rosa_client.runtime.person import Cause
from rosa_contract.fallbacks import FallbackAction
from rosa_sim.explore.__main__ import ROWS
from rosa_sim.explore.cells import CELLS, core_of
from rosa_sim.explore.keys import Key, coarse, fine
from rosa_sim.explore.search import SearchResult, search

SMALL = (
    "pick and place, safe",
    "planned, every time",
    "careful planner",
    "one observation",
)
# Together they take every row; the two that are searched furthest have most rows of their own.
FIRST_STATES = {
    "guarded": 700,
    "guarded, stands still": 700,
    "lenient watch": 2_800,
    "guarded, watch returns": 2_500,
    "asynchronous": 700,
}


@cache
def completely(cell: str) -> SearchResult:
    return search(core_of(cell), max_states=2_800)


@pytest.mark.slow
@pytest.mark.parametrize("cell", SMALL)
def test_nothing_that_can_happen_breaks_a_promise(cell: str) -> None:
    found = completely(cell)
    assert found.problems == []
    assert found.complete
    assert found.states > 400
    assert found.transitions > 5_000


@pytest.mark.slow
def test_every_row_of_the_transition_table_is_taken() -> None:
    taken: set[tuple[Enum, Enum]] = set()
    found_first = [search(core_of(cell), max_states=states) for cell, states in FIRST_STATES.items()]
    for found in (completely("pick and place, safe"), *found_first):
        assert found.problems == []
        taken |= found.rows
    assert taken == set(ROWS)


def test_every_fallback_and_policy_is_in_a_cell() -> None:
    assert {fallback for _, _, fallbacks in CELLS.values() for fallback in fallbacks.values()} == {
        "use_last_plan",
        "stop_and_resend",
        "stop_and_replan",
        "return_to_safe_state",
        "stop_and_call_human",
    }
    assert {policy for policy, _, _ in CELLS.values()} == {
        "stop_and_call_human",
        "return_to_safe_state",
        "abort",
    }


# -- a search that finds nothing in a broken core would prove nothing -------------------------------------------------


def forgetful_hold(core: Mission, now_s: float) -> None:
    """Orders nothing."""


def deadlines_first(core: Mission, now_s: float) -> None:
    """Checks the arm, but only after a deadline has moved it."""
    checks.check_deadlines(core, now_s)
    real_check_arm(core, now_s)


def keeps_calls(core: Mission, now_s: float) -> None:
    """Forgets to cancel."""


def resets_whatever_holds(core: Mission, calls: ComponentCalls, verdict: str, now_s: float) -> None:
    """Begins a reset although something holds the robot."""
    if verdict == "failed":
        ladder.failed(core, now_s)


def takes_any_choice(core: Mission, alert_id: int, choice: str, decided_by: str, now_s: float) -> None:
    """Lets an operator resume under an emergency stop."""


def takes_any_number(core: Mission, alert_id: int, choice: str, decided_by: str, now_s: float) -> Any:
    """Takes a decision on whichever alert for one on the open one."""
    alert = core.person.alert
    return real_refusal(core, alert.alert_id if alert else alert_id, choice, decided_by, now_s)


def takes_late_answers(calls: ComponentCalls, request_id: int, now_s: float) -> Ending:
    """Takes an answer that was given up for the answer to the call in flight."""
    late = request_id in calls._overdue and calls.in_flight
    return real_answer(calls, calls.request_id if late else request_id, now_s)


def remembers_late_answers(calls: ComponentCalls, request_id: int, now_s: float) -> Ending:
    """Asks earlier again because of an answer that came too late."""
    ending = real_answer(calls, request_id, now_s)
    if ending is Ending.LATE:
        calls.resend_after_s = 0.0
    return ending


def starts_again(table: Any, state: Any, event: Any) -> Any:
    """Lets a task start in the middle of another."""
    return State.CONNECTING if event is Event.START else advance(table, state, event)


def forgets_an_interrupted_reset(table: Any, state: Any, event: Any) -> Any:
    """Goes on from where a reset was interrupted, as if the robot were home."""
    return Unfinished.NOTHING if event is UnfinishedEvent.RESET_INTERRUPTED else advance(table, state, event)


def forgets_an_interrupted_return(table: Any, state: Any, event: Any) -> Any:
    """Does not drive to the safe pose when the danger that kept it from doing so is over."""
    return Unfinished.NOTHING if event is UnfinishedEvent.RETURN_INTERRUPTED else advance(table, state, event)


def sees_no_danger(core: Mission) -> bool:
    """Drives to the safe pose whatever safety says."""
    return False


def never_times_out(core: Mission, now_s: float) -> float:
    """Waits for a move for ever."""
    if core.inputs.arm_state == "holding" and not core.arm_is_behind:
        steps._arrived(core, now_s)
    return inf


def plays_late(core: Mission, now_s: float) -> None:
    """Takes no notice of deadlines."""


def trusts_the_arm(core: Mission, now_s: float) -> None:
    """Takes a chunk that the arm cut short as played."""


def limits_first(
    core: Mission, missed: Sequence[tuple[ComponentCalls, str]], cause: str, now_s: float
) -> None:
    """Gives the task up at a limit although a component that missed calls a human."""
    if any(calls.consecutive_missed >= 1 for calls, _ in missed):
        ladder._violation_limit(core, Cause("max_consecutive_slo_violation", "too many"), now_s)


def drives_in_danger(core: Mission, calls: ComponentCalls, now_s: float) -> None:
    """Hears of a danger on the way to a human, and drives on."""
    if core.state is State.CLEARING:
        core.holds.unsafe_in_a_row += 1
    else:
        real_unsafe(core, calls, now_s)


def moves_before_it_looked(core: Mission, now_s: float) -> float:
    """Asks for actions, and carries them out, as if safety had said safe already."""
    safety, core.holds.safety = core.holds.safety, Safety.SAFE
    due_s = steps.inferring(core, now_s)
    core.holds.safety = safety
    return due_s


def never_stops(core: Mission, *why: Any) -> None:
    """Goes on whatever should hold it."""


def believes_old_reports(core: Mission) -> bool:
    """Takes what the arm does before it has taken an order for what it does with that order."""
    return False


def remembers_what_it_saw(sight: Sight, after_s: float) -> None:
    """Acts on what it saw before a stop."""
    sight.fresh_after_s = after_s


def asks_without_a_plan(core: Mission) -> bool:
    """Asks for the next chunk whether or not its plan is there."""
    return True


def starts_counting_again(holds: Holds, key: str, action: FallbackAction, now_s: float) -> None:
    """Takes every stop for the first one since an action."""
    holds.stops_in_a_row = 0
    real_add(holds, key, action, now_s)


def counts_only_what_stops(holds: Holds, key: str, action: FallbackAction, now_s: float) -> None:
    """Takes no notice of what begins to hold a robot that something else holds already."""
    stops, held = holds.stops_in_a_row, bool(holds.by)
    real_add(holds, key, action, now_s)
    holds.stops_in_a_row = stops if held else holds.stops_in_a_row


real_add = Holds.add
real_check_arm = checks.check_arm
real_unsafe = ladder.unsafe
real_refusal = choices.refusal
real_answer = ComponentCalls.answer

MUTANTS: list[tuple[str, Any, str, Any]] = [
    ("pick and place", Mission, "hold", forgetful_hold),
    ("guarded", runtime.checks, "check_arm", deadlines_first),
    ("pick and place", Mission, "cancel_calls", keeps_calls),
    ("guarded and watched", responses, "_use_progress", resets_whatever_holds),
    ("pick and place", choices, "refusal", takes_any_choice),
    ("pick and place", choices, "refusal", takes_any_number),
    ("guarded", ComponentCalls, "answer", takes_late_answers),
    ("guarded", ComponentCalls, "answer", remembers_late_answers),
    ("guarded, stands still", Mission, "stands_in_danger", property(sees_no_danger)),
    ("pick and place", machine, "advance", starts_again),
    ("pick and place", machine, "advance", forgets_an_interrupted_reset),
    ("guarded and watched", machine, "advance", forgets_an_interrupted_return),
    ("guarded", steps, "STEPS", {**steps.STEPS, State.RETURNING: never_times_out}),
    ("pick and place", runtime.checks, "check_deadlines", plays_late),
    ("pick and place", checks, "_cut_short", trusts_the_arm),
    ("strict", checks, "violate", limits_first),
    ("guarded, stands still", responses, "unsafe", drives_in_danger),
    ("guarded", steps, "STEPS", {**steps.STEPS, State.INFERRING: moves_before_it_looked}),
    ("guarded", Holds, "add", starts_counting_again),
    ("guarded and watched", Holds, "add", counts_only_what_stops),
    ("asynchronous", Mission, "cancel_chain", keeps_calls),
    ("asynchronous, planned ahead", ahead, "wanted", asks_without_a_plan),
    ("asynchronous, all four", Mission, "cancel_chain", keeps_calls),
    ("asynchronous, all four", checks, "stop", never_stops),
    ("asynchronous, all four", Mission, "arm_is_behind", property(believes_old_reports)),
    ("asynchronous, all four", machine, "advance", forgets_an_interrupted_reset),
    ("one observation", Sight, "again", remembers_what_it_saw),
]


@pytest.mark.slow
@pytest.mark.parametrize("key_of", [fine, coarse])
@pytest.mark.parametrize(
    ("cell", "where", "name", "broken"),
    MUTANTS,
    ids=lambda one: getattr(getattr(one, "fget", one), "__name__", None),
)
def test_a_broken_core_is_noticed(
    cell: str, where: Any, name: str, broken: Any, key_of: Key, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(where, name, broken)
    assert search(core_of(cell), key_of=key_of).problems


def test_a_search_leaves_the_core_as_it_found_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also a broken one: what is tested after it must not meet the break."""
    monkeypatch.setattr(machine, "advance", starts_again)
    search(core_of("pick and place"), max_states=1)
    assert machine.advance is starts_again
