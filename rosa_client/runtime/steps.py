"""What each state does in a control period: wait, send, watch a chunk or a move end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import inf

from rosa_client.runtime import ahead
from rosa_client.runtime.calls import ComponentCalls
from rosa_client.runtime.checks import ARM, sensor_key
from rosa_client.runtime.commands import HOLDING, RETURNING, Ask, Send
from rosa_client.runtime.ladder import SUPERVISED, escalate, to_safe_pose
from rosa_client.runtime.machines.side_machines import (
    MAY_INFER,
    RETURN_IS_OWED,
    LegEvent,
    LegProgress,
    Unfinished,
    UnfinishedEvent,
)
from rosa_client.runtime.machines.task_machine import Event, State
from rosa_client.runtime.mission import Cause, Mission
from rosa_client.runtime.observing import is_soon_due, observation_for
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
from rosa_contract.wire.progress import MAX_ACTS_MS, MAX_KIND_CHARS, Progress

ASK_ARM_EVERY_S = 1.0
ASK_PERMIT_EVERY_S = 0.5
# Without a permit a robot calls when it has waited so long and has its turn at the schedule's rate, or has waited for
# longest: its deadline and fallback take over then.
MIN_WAIT_FOR_PERMIT_S, MAX_WAIT_FOR_PERMIT_S = 0.25, 2.0


def step(core: Mission, now_s: float) -> None:
    """One period of the present state. A state that is left at once, such as `connecting`, takes no extra period."""
    for _ in range(4):
        before = core.state
        of_state = STEPS.get(before)
        if of_state is not None:
            of_state(core, now_s)
        if core.state is before:
            break
    send_obligations(core, now_s)


def connecting(core: Mission, now_s: float) -> None:
    missing = _not_ready(core, now_s)
    if not missing:
        core.go(Event.READY, now_s)
    elif (faults := core.inputs.sensor_faults) and now_s - core.entered_s > core.timeouts.sensor_s:
        reason = "; ".join(f"{name} cannot be used: {fault}" for name, fault in faults.items())
        escalate(core, Cause("sensor_fault", reason), now_s)
    elif now_s - core.entered_s > core.timeouts.connect_s:
        reason = f"not ready within {core.timeouts.connect_s:g} s: {missing}"
        escalate(core, Cause("not_ready", reason), now_s)
    elif core.arm_is_behind and now_s - core.ordered_s > ASK_ARM_EVERY_S:
        core.hold(now_s)  # an order sent before the arm node subscribed is lost


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


def inferring(core: Mission, now_s: float) -> None:
    # The observation must show the arm at rest, also after an order that it has not taken yet.
    if core.arm_is_behind or core.inputs.arm_state != HOLDING:
        if now_s - core.entered_s > core.timeouts.move_s:
            reason = f"the arm does not come to rest within {core.timeouts.move_s:g} s after its chunk"
            escalate(core, Cause("move_timeout", reason), now_s)
        return
    if core.safety not in MAY_INFER:
        return  # safety is asked first (`send_obligations`)
    if now_s < core.looks_from_s:
        return  # only periodic components look at an arm that settles
    planner, actor = core.calls.get(SYSTEM2), core.calls[SYSTEM1]
    if planner is not None and core.plan_credit >= 1 - 1e-9:
        send(core, planner, planner.component.prompt, now_s)
    else:
        send(core, actor, core.plan or actor.component.prompt, now_s)


def executing(core: Mission, now_s: float) -> None:
    planner = core.calls.get(SYSTEM2)
    if planner is not None and plans_ahead(core):
        send(core, planner, planner.component.prompt, now_s)
    if now_s >= core.ask_next_s and ahead.wanted(core):
        actor = core.calls[SYSTEM1]
        send(core, actor, core.plan or actor.component.prompt, now_s)
    if now_s >= core.play_until_s:
        core.carried_out()
        core.observe_again(now_s)
        core.looks_from_s = now_s + core.task.pipeline.settle_ms / 1000
        core.go(Event.CHUNK_ENDED, now_s)


def plans_ahead(core: Mission) -> bool:
    """While this action is executed the plan for the next one is asked for."""
    pipeline = core.task.pipeline
    due = core.plan_credit + pipeline.system2_to_system1_call_ratio >= 1 - 1e-9
    return pipeline.planning == AHEAD and due


def holding(core: Mission, now_s: float) -> None:
    """While a cause holds, only the move to the safe pose may begin again.

    When none is left, an interrupted reset begins again; otherwise the robot goes on.
    """
    _clear(core, now_s)
    if core.unfinished in RETURN_IS_OWED and not core.stands_in_danger:
        core.note(RETURN_TO_SAFE_STATE, "recovered", "the interrupted move to the safe pose begins again")
        to_safe_pose(core, now_s)
    elif core.held_by:
        return
    elif core.unfinished is Unfinished.RESET:
        core.unfinished_goes(UnfinishedEvent.RESET_BEGINS)
        core.note("retry", "recovered", "the interrupted reset begins again")
        core.go(Event.RETRY, now_s)
        core.move(FIRST_LEG, now_s)
    else:
        core.observe_again(max(core.fresh_after_s, core.entered_s))
        core.go(Event.CLEARED, now_s)


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


def moving(core: Mission, now_s: float) -> None:
    """One leg of a move. Its timeout keeps running however often the arm cuts the leg short."""
    returns = core.inputs.arm_state == RETURNING  # takes no order yet
    if (why := core.inputs.arm_cut_short) and not core.arm_is_behind and not returns:
        core.note("move_again", "arm_cut_short", f"the move to {core.leg.pose} did not end: {why}")
        core.move(core.leg, now_s)
    at_rest = not core.arm_is_behind and core.inputs.arm_state == HOLDING
    if core.leg_progress is LegProgress.UNDER_WAY and at_rest:
        core.leg_goes(LegEvent.AT_REST)
        core.stay_until_s = now_s + core.leg.stay_s
    if core.leg_progress is LegProgress.ARRIVED and now_s >= core.stay_until_s:
        _arrived(core, now_s)
    elif now_s - core.entered_s > core.timeouts.move_s:
        reason = f"the move to {core.leg.pose} took over {core.timeouts.move_s:g} s"
        escalate(core, Cause("move_timeout", reason), now_s)


def _arrived(core: Mission, now_s: float) -> None:
    if core.state is State.CLEARING:
        why = core.call_human_for
        there = replace(why, reason=f"{why.reason}; the robot is at its safe pose")
        escalate(core, there, now_s, Event.ARRIVED)
        return
    following = next_leg(core.leg, core.inputs.gripper_holds) if core.state is State.RESETTING else None
    if following == DOWN and DOWN.pose not in core.robot.poses:
        reason = "something is held, and the robot file names no drop_rad where to put it down"
        escalate(core, Cause("cannot_put_down", reason), now_s)
    elif following is not None:
        core.go(Event.NEXT_LEG, now_s)
        core.move(following, now_s)
    else:
        core.observe_again(now_s)
        core.go(Event.ARRIVED, now_s)
        if core.state is State.CONNECTING:
            core.begin_attempt(now_s)


def send_obligations(core: Mission, now_s: float) -> None:
    """Call the periodic components that are due, whatever System 1 and 2 do.

    Where one leaves in this control period, those that are soon due leave with it.
    """
    for calls in core.calls.values():
        due = calls.component.freq_hz is not None and (now_s >= calls.due_s or calls.name in core.held_by)
        if due and is_asked(core.state, calls.name):
            send(core, calls, _asked(core, calls), now_s)
    shares = core.observed_now and core.task.pipeline.share_observation_ms > 0
    for calls in core.calls.values() if shares else ():
        if is_soon_due(core, calls, now_s) and is_asked(core.state, calls.name):
            send(core, calls, _asked(core, calls), now_s)


def _asked(core: Mission, calls: ComponentCalls) -> str:
    """The prompt of a periodic component."""
    prompt = calls.component.prompt
    return core.planned.after(prompt) if calls.name == MONITOR else prompt


def is_asked(state: State, component: str) -> bool:
    """Whether a periodic component is called: no progress while resetting, and only safety in `clearing`."""
    if state is State.CLEARING:
        return component == SAFETY
    return state in SUPERVISED and not (state is State.RESETTING and component == MONITOR)


def send(core: Mission, calls: ComponentCalls, prompt: str, now_s: float) -> None:
    """Send, unless a call is in flight or the newest observation is too old."""
    if calls.in_flight or now_s < calls.resend_after_s:
        return
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
        core.round_observed = observed
    core.request_id += 1
    calls.about = observed.number
    calls.due_s = max(calls.due_s, core.inputs.first_call_s.get(calls.name, -inf))  # a phase is kept
    calls.send(core.request_id, now_s, period_s(core, calls), core.inputs.catch_up, permitted)
    request = (core.request_id, calls.name, calls.component.slo_ms, prompt)
    if calls.name != SYSTEM1:
        told = progress(core, now_s) if calls.name in GOAL_COUPLED else None
        core.out.append(Send(*request, observation=observed.number, progress=told))
        return
    overlap, core.asked_ahead = ahead.overlap(core, now_s) if core.state is State.EXECUTING else (None, None)
    horizon, told = core.task.pipeline.horizon, progress(core, now_s)
    core.out.append(Send(*request, horizon, overlap, observed.number, told))


def progress(core: Mission, now_s: float) -> Progress:
    """Where the robot is in its task. Tasks with one prompt of System 1 are of one kind."""
    acts_s = core.play_until_s - now_s if core.state is State.EXECUTING else 0.0
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


STEPS: Mapping[State, Callable[[Mission, float], None]] = {
    State.CONNECTING: connecting,
    State.INFERRING: inferring,
    State.EXECUTING: executing,
    State.HOLDING: holding,
    State.RETURNING: moving,
    State.RESETTING: moving,
    State.CLEARING: moving,
}
