"""The checks at the start of every control period: the arm, deadlines, sensors, the task's time limit."""

from __future__ import annotations

from math import inf, nextafter

from rosa_client.runtime.calls import ComponentCalls
from rosa_client.runtime.commands import RETURNING
from rosa_client.runtime.ladder import escalate, finish, stop, violate
from rosa_client.runtime.machines.task_machine import NOT_TIMED, State
from rosa_client.runtime.mission import Mission
from rosa_client.runtime.person import Cause
from rosa_contract.fallbacks import FallbackAction

SENSOR = "sensor:"
ARM = "arm"  # the cause that holds the robot after an order that did not run to its end
SEES = (State.INFERRING, State.EXECUTING, State.HOLDING, State.RESETTING)


def due_checks_s(core: Mission) -> float:
    """When one of these checks fails next if nothing else happens, s; sensors are taken to stay fresh."""
    if core.state in (State.IDLE, State.WAITING_FOR_HUMAN):
        return inf
    due_s = inf
    for calls in core.calls.values():
        if calls.request_id is not None and calls.deadline_s < due_s:
            due_s = nextafter(calls.deadline_s, inf)
    if core.deadline_s is not None and core.state not in NOT_TIMED:
        due_s = min(due_s, nextafter(core.deadline_s, inf))
    if core.arm_is_behind and core.state is not State.CONNECTING:
        due_s = min(due_s, after(core.arm.unheard_since_s, core.timeouts.arm_s))
    return due_s


def after(since_s: float, timeout_s: float) -> float:
    """The first time of which the core finds that `now_s - since_s > timeout_s`."""
    return nextafter(since_s + timeout_s, inf)


def check_deadlines(core: Mission, now_s: float) -> None:
    """Missed deadlines. When several are due at once, all are counted and the most severe fallback runs."""
    overdue: list[ComponentCalls] = []
    for calls in core.calls.values():
        if calls.request_id is not None and now_s > calls.deadline_s:
            overdue.append(calls)
    if not overdue:
        return
    for calls in overdue:
        core.out.append(calls.miss(now_s))
    missed = [(calls, f"no answer within {calls.component.slo_ms:g} ms") for calls in overdue]
    violate(core, missed, "slo_missed", now_s)


def check_task_time(core: Mission, now_s: float) -> None:
    """The time limit of the task. Time spent waiting for an operator does not count."""
    if core.deadline_s is not None and now_s > core.deadline_s and core.state not in NOT_TIMED:
        finish(core, "timed_out", "task_timeout", "the task was not done within its time", now_s)


def check_arm(core: Mission, now_s: float) -> None:
    """Emergency stop, arm fault, an order that the arm did not take, an order that did not run to its end.

    What a person decided while the arm was led on waits for the end of that: the timeouts of the state bound it.
    """
    if core.state is State.IDLE:
        return
    _check_emergency_stop(core, now_s)
    if core.state is State.WAITING_FOR_HUMAN:
        return
    fault, behind = core.inputs.arm_fault, core.arm_is_behind
    if not behind:
        core.arm.has_taken_the_newest(fault)
    returns = core.arm.awaited and core.inputs.arm_state == RETURNING
    if fault and not returns and not (behind and fault == core.arm.excused_fault):
        escalate(core, Cause("arm_fault", fault), now_s)
    elif (
        behind
        and core.state is not State.CONNECTING
        and now_s - core.arm.unheard_since_s > core.timeouts.arm_s
    ):
        reason = f"the arm has taken no order for {core.timeouts.arm_s:g} s{_saying(fault)}"
        escalate(core, Cause("arm_silent", reason), now_s)
    elif core.inputs.arm_cut_short and not behind and not returns:
        _cut_short(core, now_s)


def _check_emergency_stop(core: Mission, now_s: float) -> None:
    latched = core.inputs.emergency_stop
    if latched and core.state is not State.WAITING_FOR_HUMAN:
        reason = "the emergency stop is latched; release it, then decide"
        escalate(core, Cause("emergency_stop", reason), now_s)
    elif latched and not core.arm.was_stopped:
        core.note("wait", "emergency_stop", "the emergency stop is latched while the robot waits for a human")


def _cut_short(core: Mission, now_s: float) -> None:
    why = core.inputs.arm_cut_short
    if core.state is State.EXECUTING:
        in_a_row = core.holds.cut_short()
        limit = core.task.safety_and_slo_violation.max_consecutive_slo_violation
        if in_a_row >= limit:
            reason = f"the arm cut {limit} chunks in a row short: {why}"
            escalate(core, Cause("arm_cut_short", reason), now_s)
        else:
            reason = f"{why} ({in_a_row} of {limit} in a row)"
            stop(core, ARM, FallbackAction.STOP_AND_RESEND, "arm_cut_short", reason, now_s)
    elif ARM in core.holds.by and now_s - core.holds.by[ARM].since_s > core.timeouts.arm_s:
        escalate(core, Cause("arm_cut_short", f"the arm does not recover: {why}"), now_s)


def check_sensors(core: Mission, now_s: float) -> None:
    """A robot with a stale sensor stops; if that lasts, it calls a human."""
    stale = core.stale(now_s) if core.state in SEES else {}
    for name, stamp_s in stale.items():
        if core.state not in SEES:
            return  # the one before has called a human
        held = core.holds.by.get(sensor_key(name))
        if held is None:  # a new hold; its timeout begins now
            reason = f"{name} is {1000 * (now_s - stamp_s):.0f} ms old{_because(core, name)}"
            stop(core, sensor_key(name), FallbackAction.STOP_AND_RESEND, "sensor_stale", reason, now_s)
        elif now_s - held.since_s > core.timeouts.sensor_s:
            reason = (
                f"{name} has been silent or too old for {now_s - held.since_s:.1f} s{_because(core, name)}"
            )
            escalate(core, Cause("sensor_silent", reason), now_s)


def sensor_key(name: str) -> str:
    return f"{SENSOR}{name}"


def _because(core: Mission, sensor: str) -> str:
    fault = core.inputs.sensor_faults.get(sensor, "")
    return f": {fault}" if fault else ""


def _saying(fault: str) -> str:
    return f"; it says: {fault}" if fault else ""
