"""Until when the core has nothing to do by itself, so that a simulation of many cores need not tick each at 100 Hz.

A query, not a decision: a tick before `next_due_s` changes nothing as long as the inputs stay the same (arm, link,
sensors that stay fresh). Tick at once when they change, and after every response.
"""

from __future__ import annotations

from math import inf, nextafter

from rosa_client.runtime.ahead import wanted
from rosa_client.runtime.calls import ComponentCalls
from rosa_client.runtime.checks import ARM, SENSOR
from rosa_client.runtime.commands import HOLDING
from rosa_client.runtime.machines.side_machines import MAY_INFER, RETURN_IS_OWED, LegProgress
from rosa_client.runtime.machines.task_machine import MOVES, NOT_TIMED, State
from rosa_client.runtime.mission import Mission
from rosa_client.runtime.steps import ASK_ARM_EVERY_S, ask_s, has_permit, is_asked, plans_ahead, turn_s
from rosa_contract.config.tasks import GOAL_COUPLED, SYSTEM1, SYSTEM2


def next_due_s(core: Mission) -> float:
    """The time of the next tick at the latest, s; in the past when only a newer sensor sample is missing."""
    state = core.state
    if state is State.IDLE or state is State.WAITING_FOR_HUMAN:
        return inf
    due_s = _step_s(core, state)
    for calls in core.calls.values():
        if calls.request_id is not None:
            if calls.deadline_s < due_s:
                due_s = nextafter(calls.deadline_s, inf)
        elif calls.component.freq_hz is not None:
            at_s = calls.resend_after_s
            if at_s < calls.due_s and calls.name not in core.held_by:
                at_s = calls.due_s
            if at_s < due_s and is_asked(state, calls.name):
                due_s = min(due_s, max(at_s, turn_s(core, calls)))
    if core.deadline_s is not None and state not in NOT_TIMED:
        due_s = min(due_s, nextafter(core.deadline_s, inf))
    if core.arm_is_behind and state is not State.CONNECTING:
        due_s = min(due_s, _after(core.unheard_since_s, core.timeouts.arm_s))
    return due_s


def _step_s(core: Mission, state: State) -> float:
    """When `steps.step` goes on from this state."""
    if state is State.EXECUTING:
        planner, due_s = core.calls.get(SYSTEM2), core.play_until_s
        if planner is not None and plans_ahead(core):
            due_s = min(due_s, _sends_s(core, planner))
        if wanted(core):
            due_s = min(due_s, max(core.ask_next_s, _sends_s(core, core.calls[SYSTEM1])))
        return due_s
    if state is State.INFERRING:
        return _inferring_s(core)
    if state is State.HOLDING:
        return _holding_s(core)
    if state is State.CONNECTING:
        again_s = _after(core.ordered_s, ASK_ARM_EVERY_S) if core.arm_is_behind else inf
        limit_s = core.timeouts.sensor_s if core.inputs.sensor_faults else core.timeouts.connect_s
        return min(again_s, _after(core.entered_s, limit_s))
    assert state in MOVES
    if core.leg_progress is LegProgress.ARRIVED:
        return core.stay_until_s
    rests = not core.arm_is_behind and core.inputs.arm_state == HOLDING
    return -inf if rests else _after(core.entered_s, core.timeouts.move_s)


def _inferring_s(core: Mission) -> float:
    if core.arm_is_behind or core.inputs.arm_state != HOLDING:
        return _after(core.entered_s, core.timeouts.move_s)
    if core.safety not in MAY_INFER:
        return inf
    planner = core.calls.get(SYSTEM2)
    plans = planner is not None and core.plan_credit >= 1 - 1e-9
    next_calls = planner if planner is not None and plans else core.calls[SYSTEM1]
    return max(core.looks_from_s, _sends_s(core, next_calls))


def _sends_s(core: Mission, calls: ComponentCalls) -> float:
    if calls.request_id is not None:
        return inf
    at_s = -inf if has_permit(core, calls) else min(turn_s(core, calls), ask_s(core, calls))
    return max(calls.resend_after_s, at_s)


def _holding_s(core: Mission) -> float:
    """A hold that clears by itself, or that has lasted too long."""
    if not core.held_by or (core.unfinished in RETURN_IS_OWED and not core.stands_in_danger):
        return -inf
    due_s = inf
    for key, held in core.held_by.items():
        if key in GOAL_COUPLED:
            due_s = min(due_s, core.calls[key].resend_after_s)
        elif key == ARM:
            due_s = min(due_s, _after(held.since_s, core.timeouts.arm_s))
        elif key.startswith(SENSOR):
            due_s = min(due_s, _after(held.since_s, core.timeouts.sensor_s))
    return due_s


def _after(since_s: float, timeout_s: float) -> float:
    """The core asks `now_s - since_s > timeout_s`."""
    return nextafter(since_s + timeout_s, inf)
