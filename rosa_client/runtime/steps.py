"""What each state does in a control period: wait, send, watch a chunk or a move end.

Each step returns when it is due next, s: before then another one changes nothing as long as the inputs stay the same
(arm, link, sensors that stay fresh). The past: only a newer sensor sample is missing. So nobody has to tick a simulated
core at 100 Hz.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import inf

from rosa_client.runtime import ahead
from rosa_client.runtime.calls import ComponentCalls
from rosa_client.runtime.checks import ARM, SENSOR, after, due_checks_s, sensor_key
from rosa_client.runtime.commands import HOLDING, RETURNING, Ask, Send
from rosa_client.runtime.ladder import SUPERVISED, escalate, to_safe_pose
from rosa_client.runtime.machines.side_machines import (
    MAY_INFER,
    RETURN_IS_OWED,
    LegProgress,
    Unfinished,
    UnfinishedEvent,
)
from rosa_client.runtime.machines.task_machine import Event, State
from rosa_client.runtime.mission import Mission
from rosa_client.runtime.observing import is_soon_due, observation_for
from rosa_client.runtime.parts.holds import Held
from rosa_client.runtime.person import Cause
from rosa_client.runtime.route import DOWN, FIRST_LEG, next_leg
from rosa_contract.config.tasks import (
    AHEAD,
    GOAL_COUPLED,
    MONITOR,
    RETURN_TO_SAFE_STATE,
    SAFETY,
    SYSTEM1,
    SYSTEM2,
)
from rosa_contract.permits import ASK_PERMIT_EVERY_S, MAX_WAIT_FOR_PERMIT_S, MIN_WAIT_FOR_PERMIT_S
from rosa_contract.wire.progress import MAX_ACTS_MS, MAX_KIND_CHARS, Progress

ASK_ARM_EVERY_S = 1.0


def step(core: Mission, now_s: float) -> float:
    """One period of the present state. A state that is left at once, such as `connecting`, takes no extra period."""
    due_s = now_s
    for _ in range(4):
        before = core.state
        of_state = STEPS.get(before)
        due_s = of_state(core, now_s) if of_state is not None else inf
        if core.state is before:
            break
    return min(due_s, send_obligations(core, now_s), due_checks_s(core))


def connecting(core: Mission, now_s: float) -> float:
    missing = _not_ready(core, now_s)
    if not missing:
        core.go(Event.READY, now_s)
    elif (faults := core.inputs.sensor_faults) and now_s - core.entered_s > core.timeouts.sensor_s:
        reason = "; ".join(f"{name} cannot be used: {fault}" for name, fault in faults.items())
        escalate(core, Cause("sensor_fault", reason), now_s)
    elif now_s - core.entered_s > core.timeouts.connect_s:
        reason = f"not ready within {core.timeouts.connect_s:g} s: {missing}"
        escalate(core, Cause("not_ready", reason), now_s)
    elif core.arm_is_behind and now_s - core.arm.ordered_s > ASK_ARM_EVERY_S:
        core.hold(now_s)  # an order sent before the arm node subscribed is lost
    again_s = after(core.arm.ordered_s, ASK_ARM_EVERY_S) if core.arm_is_behind else inf
    limit_s = core.timeouts.sensor_s if core.inputs.sensor_faults else core.timeouts.connect_s
    return min(again_s, after(core.entered_s, limit_s))


def _not_ready(core: Mission, now_s: float) -> str:
    """What the task still waits for before it begins, in words; empty when it can begin."""
    silent = [name for name in core.sensors if name not in core.inputs.sensor_stamp_s]
    if not core.inputs.link_ready:
        return core.inputs.link_reason or "the server has not welcomed this robot"
    if silent:
        return f"nothing from {', '.join(silent)}"
    if core.stale(now_s):
        return f"too old: {', '.join(core.stale(now_s))}"
    if core.inputs.arm_state == RETURNING:
        return core.inputs.arm_fault
    return "the arm does not take orders" if core.arm_is_behind else ""


def inferring(core: Mission, now_s: float) -> float:
    # The observation must show the arm at rest, also after an order that it has not taken yet.
    if core.arm_is_behind or core.inputs.arm_state != HOLDING:
        if now_s - core.entered_s > core.timeouts.move_s:
            reason = f"the arm does not come to rest within {core.timeouts.move_s:g} s after its chunk"
            escalate(core, Cause("move_timeout", reason), now_s)
        return after(core.entered_s, core.timeouts.move_s)
    if core.holds.safety not in MAY_INFER:
        return inf  # safety is asked first (`send_obligations`)
    planner, actor = core.calls.get(SYSTEM2), core.calls[SYSTEM1]
    plans = planner is not None and core.planning.is_due
    calls = planner if planner is not None and plans else actor
    if now_s < core.sight.looks_from_s:  # only periodic components look at an arm that settles
        return max(core.sight.looks_from_s, sends_s(core, calls))
    prompt = calls.component.prompt
    return send(core, calls, prompt if plans else core.planning.plan or prompt, now_s)


def executing(core: Mission, now_s: float) -> float:
    planner, due_s = core.calls.get(SYSTEM2), core.chunk.ends_s
    if planner is not None and plans_ahead(core):
        due_s = min(due_s, send(core, planner, planner.component.prompt, now_s))
    if ahead.wanted(core):
        actor = core.calls[SYSTEM1]
        if now_s >= core.chunk.ask_next_s:
            send(core, actor, core.planning.plan or actor.component.prompt, now_s)
        due_s = min(due_s, max(core.chunk.ask_next_s, sends_s(core, actor)))
    if now_s >= core.chunk.ends_s:
        core.carried_out()
        core.sight.again(now_s)
        core.sight.settle_until(now_s + core.task.pipeline.settle_ms / 1000)
        core.go(Event.CHUNK_ENDED, now_s)
    return due_s


def plans_ahead(core: Mission) -> bool:
    """While this action is executed the plan for the next one is asked for."""
    pipeline = core.task.pipeline
    due = core.planning.is_due_after(pipeline.system2_to_system1_call_ratio)
    return pipeline.planning == AHEAD and due


def holding(core: Mission, now_s: float) -> float:
    """While a cause holds, only the move to the safe pose may begin again.

    When none is left, an interrupted reset begins again; otherwise the robot goes on.
    """
    _clear(core, now_s)
    if core.holds.unfinished in RETURN_IS_OWED and not core.stands_in_danger:
        core.note(RETURN_TO_SAFE_STATE, "recovered", "the interrupted move to the safe pose begins again")
        to_safe_pose(core, now_s)
    elif core.holds.by:
        return min(_clears_s(core, key, held) for key, held in core.holds.by.items())
    elif core.holds.unfinished is Unfinished.RESET:
        core.holds.unfinished_goes(UnfinishedEvent.RESET_BEGINS)
        core.note("retry", "recovered", "the interrupted reset begins again")
        core.go(Event.RETRY, now_s)
        core.move(FIRST_LEG, now_s)
    else:
        core.sight.again(max(core.sight.fresh_after_s, core.entered_s))
        core.go(Event.CLEARED, now_s)
    return now_s


def _clears_s(core: Mission, key: str, held: Held) -> float:
    """When a hold clears by itself, or has lasted too long."""
    if key in GOAL_COUPLED:
        return core.calls[key].resend_after_s
    if key == ARM:
        return after(held.since_s, core.timeouts.arm_s)
    return after(held.since_s, core.timeouts.sensor_s) if key.startswith(SENSOR) else inf


def _clear(core: Mission, now_s: float) -> None:
    """Sensors clear when they are fresh, the arm when it has obeyed, goal-coupled components when they are due again.

    Other components clear with a good response (`responses.py`).
    """
    stale = core.stale(now_s)
    for name in core.sensors:
        if name not in stale:
            core.clear(sensor_key(name), f"{name} is fresh again")
    if not core.arm_is_behind and not core.inputs.arm_cut_short:
        core.clear(ARM, "the arm obeys again")
    for key in GOAL_COUPLED:
        if key in core.calls and now_s >= core.calls[key].resend_after_s:
            core.clear(key, f"{key} is asked again", "asked_again")


def moving(core: Mission, now_s: float) -> float:
    """One leg of a move. Its timeout keeps running however often the arm cuts the leg short."""
    returns = core.inputs.arm_state == RETURNING  # takes no order yet
    if (why := core.inputs.arm_cut_short) and not core.arm_is_behind and not returns:
        core.note("move_again", "arm_cut_short", f"the move to {core.arm.leg.pose} did not end: {why}")
        core.move(core.arm.leg, now_s)
    at_rest = not core.arm_is_behind and core.inputs.arm_state == HOLDING
    if core.arm.leg_progress is LegProgress.UNDER_WAY and at_rest:
        core.arm.rests(now_s)
    if core.arm.leg_progress is LegProgress.ARRIVED and now_s >= core.arm.stay_until_s:
        _arrived(core, now_s)
    elif now_s - core.entered_s > core.timeouts.move_s:
        reason = f"the move to {core.arm.leg.pose} took over {core.timeouts.move_s:g} s"
        escalate(core, Cause("move_timeout", reason), now_s)
    arrived = core.arm.leg_progress is LegProgress.ARRIVED
    return core.arm.stay_until_s if arrived else after(core.entered_s, core.timeouts.move_s)


def _arrived(core: Mission, now_s: float) -> None:
    if core.state is State.CLEARING:
        why = core.person.call_for
        there = replace(why, reason=f"{why.reason}; the robot is at its safe pose")
        escalate(core, there, now_s, Event.ARRIVED)
        return
    following = next_leg(core.arm.leg, core.inputs.gripper_holds) if core.state is State.RESETTING else None
    if following == DOWN and DOWN.pose not in core.robot.poses:
        reason = "something is held, and the robot file names no drop_rad where to put it down"
        escalate(core, Cause("cannot_put_down", reason), now_s)
    elif following is not None:
        core.go(Event.NEXT_LEG, now_s)
        core.move(following, now_s)
    else:
        core.sight.again(now_s)
        core.go(Event.ARRIVED, now_s)
        if core.state is State.CONNECTING:
            core.begin_attempt(now_s)


def send_obligations(core: Mission, now_s: float) -> float:
    """Call the periodic components that are due, whatever System 1 and 2 do.

    Where one leaves in this control period, those that are soon due leave with it.
    """
    for calls in core.calls.values():
        due = calls.component.freq_hz is not None and (now_s >= calls.due_s or calls.name in core.holds.by)
        if due and is_asked(core.state, calls.name):
            send(core, calls, _asked(core, calls), now_s)
    shares = core.sight.is_new and core.task.pipeline.share_observation_ms > 0
    for calls in core.calls.values() if shares else ():
        if is_soon_due(core, calls, now_s) and is_asked(core.state, calls.name):
            send(core, calls, _asked(core, calls), now_s)
    return min((_obliged_s(core, calls) for calls in core.calls.values()), default=inf)


def _obliged_s(core: Mission, calls: ComponentCalls) -> float:
    """When a periodic component is called next."""
    if calls.in_flight or calls.component.freq_hz is None or not is_asked(core.state, calls.name):
        return inf
    at_s = calls.resend_after_s
    if calls.name not in core.holds.by:
        at_s = max(at_s, calls.due_s)
    return max(at_s, turn_s(core, calls))


def _asked(core: Mission, calls: ComponentCalls) -> str:
    """The prompt of a periodic component."""
    prompt = calls.component.prompt
    return core.planning.steps.after(prompt) if calls.name == MONITOR else prompt


def is_asked(state: State, component: str) -> bool:
    """Whether a periodic component is called: no progress while resetting, and only safety in `clearing`."""
    if state is State.CLEARING:
        return component == SAFETY
    return state in SUPERVISED and not (state is State.RESETTING and component == MONITOR)


def sends_s(core: Mission, calls: ComponentCalls) -> float:
    """When a call of this component may leave, or a permit for it may be asked for."""
    if calls.in_flight:
        return inf
    at_s = -inf if has_permit(core, calls) else min(turn_s(core, calls), ask_s(core, calls))
    return max(calls.resend_after_s, at_s)


def send(core: Mission, calls: ComponentCalls, prompt: str, now_s: float) -> float:
    """Send, unless a call is in flight or the newest observation is too old; when to try again."""
    if not calls.in_flight and now_s >= calls.resend_after_s:
        _send(core, calls, prompt, now_s)
    return sends_s(core, calls)


def _send(core: Mission, calls: ComponentCalls, prompt: str, now_s: float) -> None:
    permitted = has_permit(core, calls)
    if not permitted and now_s < turn_s(core, calls):
        if now_s >= ask_s(core, calls):
            calls.ask(now_s)
            core.out.append(Ask(calls.name))
        return
    observed = observation_for(core, calls, now_s)
    if observed is None:
        return
    if calls.name in GOAL_COUPLED:
        core.sight.asks_about(observed)
    number = core.next_request()
    held = calls.name in core.holds.by
    calls.keep_phase(core.inputs.first_call_s.get(calls.name, -inf), now_s, held)
    calls.send(number, now_s, period_s(core, calls), core.inputs.catch_up, permitted, observed.number)
    request = (number, calls.name, calls.component.slo_ms, prompt)
    if calls.name != SYSTEM1:
        told = progress(core, now_s) if calls.name in GOAL_COUPLED else None
        core.out.append(Send(*request, observation=observed.number, progress=told))
        return
    asked = ahead.asks(core, now_s) if core.state is State.EXECUTING else None
    overlap = asked.overlap if asked is not None else None
    core.chunk.asks(asked)
    horizon, told = core.task.pipeline.horizon, progress(core, now_s)
    core.out.append(Send(*request, horizon, overlap, observed.number, told))


def progress(core: Mission, now_s: float) -> Progress:
    """Where the robot is in its task. Tasks with one prompt of System 1 are of one kind."""
    acts_s = core.chunk.ends_s - now_s if core.state is State.EXECUTING else 0.0
    acts_ms = min(max(0.0, acts_s) * 1000, MAX_ACTS_MS)
    kind = core.calls[SYSTEM1].component.prompt[:MAX_KIND_CHARS]
    return Progress(core.task_number, core.counters.rounds, acts_ms, kind)


def turn_s(core: Mission, calls: ComponentCalls) -> float:
    """When the rates and phases that the server gave allow the next call of a component."""
    next_s = calls.next_turn_s(period_s(core, calls), core.inputs.catch_up)
    if calls.name in core.inputs.permits:
        next_s = max(next_s, calls.wanted_s + MIN_WAIT_FOR_PERMIT_S)
        next_s = min(next_s, calls.wanted_s + MAX_WAIT_FOR_PERMIT_S)
    first_s = core.inputs.first_call_s.get(calls.name)
    if first_s is None:
        return next_s
    return max(next_s, min(first_s, core.entered_s + core.timeouts.connect_s))  # never for ever, see below


def has_permit(core: Mission, calls: ComponentCalls) -> bool:
    """Whether the server has answered the last request for a permit. It is used up by the next call."""
    return core.inputs.permit_s.get(calls.name, -inf) >= calls.asked_s > -inf


def ask_s(core: Mission, calls: ComponentCalls) -> float:
    """When to ask for a permit next: at once, and again where the answer may be lost; never before a given phase."""
    if calls.name not in core.inputs.permits:
        return inf
    first_s = core.inputs.first_call_s.get(calls.name, -inf)
    return max(calls.asked_s + ASK_PERMIT_EVERY_S, min(first_s, core.entered_s + core.timeouts.connect_s))


def period_s(core: Mission, calls: ComponentCalls) -> float:
    """Goal-coupled calls keep to the schedule's rate, or other robots would miss deadlines (ROSA 4.3).

    Periodic ones have their own rate, except that a hold calls its component at once.
    """
    rate_hz = core.inputs.rates_hz.get(calls.name, 0.0) if calls.name in GOAL_COUPLED else 0.0
    # No rate from the server makes a robot wait for ever.
    return min(1 / rate_hz, core.timeouts.connect_s) if rate_hz > 0 else 0.0


STEPS: Mapping[State, Callable[[Mission, float], float]] = {
    State.CONNECTING: connecting,
    State.INFERRING: inferring,
    State.EXECUTING: executing,
    State.HOLDING: holding,
    State.RETURNING: moving,
    State.RESETTING: moving,
    State.CLEARING: moving,
}
