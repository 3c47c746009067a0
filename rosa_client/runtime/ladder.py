"""The ladder of fallbacks: what stops the arm, what the robot then does, and when it calls a human.

Sources: ROSA 3.3, "Safety and SLO violations handling" and "Task retry policy"; DESIGN "Robot-side behaviour".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rosa_client.runtime.calls import ComponentCalls
from rosa_client.runtime.commands import ClearAlert, TaskEnded
from rosa_client.runtime.machines.side_machines import UnfinishedEvent
from rosa_client.runtime.machines.task_machine import Event, State
from rosa_client.runtime.mission import Mission
from rosa_client.runtime.person import Cause
from rosa_client.runtime.route import FIRST_LEG, TO_SAFETY
from rosa_contract.config.tasks import ABORT, RETURN_TO_SAFE_STATE, SYSTEM2
from rosa_contract.fallbacks import FallbackAction, fallback

RECOVER_ARM = "recover_arm"  # offered first when the arm has a fault
CHOICES = ("resume", "retry", "return_to_safe_state", "abort")
# States in which every component is called. `clearing` ends with a human in any case; there only safety is called.
SUPERVISED = (State.INFERRING, State.EXECUTING, State.HOLDING, State.RETURNING, State.RESETTING)
LOOK_INTO_THE_CELL = "look whether somebody is in the workcell; resume when it is clear"


def violate(core: Mission, missed: Sequence[tuple[ComponentCalls, str]], cause: str, now_s: float) -> None:
    """Calls that ended without a usable response: the most severe fallback runs, or the limit's policy.

    The policy of the limit comes before any fallback except calling a human, which is the most severe one.
    """
    limit = core.task.safety_and_slo_violation.max_consecutive_slo_violation
    worst_first = sorted(missed, key=lambda one: fallback(one[0].component.fallback), reverse=True)
    if fallback(worst_first[0][0].component.fallback) is not FallbackAction.STOP_AND_CALL_HUMAN:
        for calls, text in missed:
            if calls.consecutive_missed >= limit and core.state in SUPERVISED:
                link = "" if core.inputs.link_ready else f"; {core.inputs.link_reason}"
                reason = f"{calls.name}: {text}, {limit} times in a row{link}"
                _violation_limit(core, Cause("max_consecutive_slo_violation", reason, calls.name), now_s)
                return
    for calls, text in worst_first:
        reason = f"{text} ({calls.consecutive_missed} of {limit} in a row)"
        fall_back(core, calls, fallback(calls.component.fallback), cause, reason, now_s)


def unsafe(core: Mission, calls: ComponentCalls, now_s: float) -> None:
    """The safety component says that going on is dangerous. The arm stops, whatever the fallback is."""
    core.holds.says_unsafe()
    action = max(fallback(calls.component.fallback), FallbackAction.STOP_AND_RESEND)
    if core.state is State.CLEARING and core.must_stand:
        action = FallbackAction.STOP_AND_CALL_HUMAN  # here, instead of at the safe pose
    limit = core.task.safety_and_slo_violation.max_consecutive_safety_replan
    # Calling a human is more severe than any policy of the limit.
    counts = core.state in SUPERVISED and action is not FallbackAction.STOP_AND_CALL_HUMAN
    if counts and core.holds.unsafe_in_a_row >= limit:
        held = core.holds.by.get(calls.name)
        lasts = f" for {now_s - held.since_s:.0f} s" if held is not None else ""
        reason = f"safety says unsafe{lasts}, {limit} times in a row"
        why = Cause("max_consecutive_safety_replan", reason, calls.name, LOOK_INTO_THE_CELL)
        _violation_limit(core, why, now_s)
        return
    calls.again_after(now_s + 1 / (calls.component.freq_hz or 1))
    fall_back(core, calls, action, "unsafe", f"verdict unsafe ({core.holds.unsafe_in_a_row} in a row)", now_s)


def fall_back(
    core: Mission, calls: ComponentCalls, action: FallbackAction, cause: str, reason: str, now_s: float
) -> None:
    """Run the component's fallback. In `clearing` only a fallback that calls a human at once counts."""
    calls_human = action is FallbackAction.STOP_AND_CALL_HUMAN
    if core.state not in SUPERVISED and not (core.state is State.CLEARING and calls_human):
        return
    if action is FallbackAction.USE_LAST_PLAN:
        if core.planning.plan is not None:
            if calls.name == SYSTEM2:
                core.spend_plan_credit()
            core.note(action.key, cause, f"{reason}; the last plan stays", calls.name)
            return
        action, reason = FallbackAction.STOP_AND_RESEND, f"{reason}; there is no plan"
    if calls_human:
        escalate(core, Cause(cause, f"{calls.name}: {reason}", calls.name), now_s)
        return
    if action >= FallbackAction.STOP_AND_REPLAN:
        core.planning.forget()
    if action is FallbackAction.RETURN_TO_SAFE_STATE:
        _return(core, calls, cause, reason, now_s)
    else:
        stop(core, calls.name, action, cause, reason, now_s, calls.name)


def stop(
    core: Mission,
    key: str,
    action: FallbackAction,
    cause: str,
    reason: str,
    now_s: float,
    component: str = "",
) -> None:
    """Hold until the cause `key` clears.

    A move to the safe pose goes on, since it is the more severe fallback; only a danger interrupts it.
    """
    _held(core, key, action, now_s)
    if _stopped_too_often(core, reason, component, now_s):
        return
    core.note(action.key, cause, reason, component)
    returns = core.state is State.RETURNING
    if core.state in (State.INFERRING, State.EXECUTING, State.RESETTING) or (
        returns and core.stands_in_danger
    ):
        if core.state is State.RESETTING:
            core.holds.unfinished_goes(UnfinishedEvent.RESET_INTERRUPTED)
        elif returns:
            core.holds.unfinished_goes(UnfinishedEvent.RETURN_INTERRUPTED)
        core.go(Event.STOP, now_s)
        core.hold(now_s)


def _return(core: Mission, calls: ComponentCalls, cause: str, reason: str, now_s: float) -> None:
    """Move to the safe pose, at once or when the danger is over, and hold there until the component answers well."""
    before = core.holds.by.get(calls.name)
    _held(core, calls.name, FallbackAction.RETURN_TO_SAFE_STATE, now_s)
    already = before is not None and before.action is FallbackAction.RETURN_TO_SAFE_STATE
    if already or _stopped_too_often(core, reason, calls.name, now_s) or core.state is State.RETURNING:
        return  # already there, or on the way
    core.note(RETURN_TO_SAFE_STATE, cause, reason, calls.name)
    if core.state is State.RESETTING:
        core.holds.unfinished_goes(UnfinishedEvent.RESET_INTERRUPTED)
    if core.stands_in_danger:
        core.holds.unfinished_goes(UnfinishedEvent.RETURN_INTERRUPTED)
    else:
        to_safe_pose(core, now_s)


def to_safe_pose(core: Mission, now_s: float) -> None:
    """Begin the move to the safe pose, or begin it again."""
    core.holds.unfinished_goes(UnfinishedEvent.RETURN_BEGINS)
    core.go(Event.RETURN, now_s)
    core.move(TO_SAFETY, now_s)


def _held(core: Mission, key: str, action: FallbackAction, now_s: float) -> None:
    """`key` holds the arm now, so nothing is inferred about what it stood before."""
    core.holds.add(key, action, now_s)
    core.cancel_chain(now_s)


def _stopped_too_often(core: Mission, reason: str, component: str, now_s: float) -> bool:
    """Call a human when causes that come and go, none of them often enough in a row, keep the arm from every action."""
    limit = core.task.safety_and_slo_violation.max_stops_without_action
    if core.holds.stops_in_a_row < limit:
        return False
    why = f"{reason}; {limit} stops in a row, with no action carried out between"
    escalate(core, Cause("max_stops_without_action", why, component), now_s)
    return True


def retry(core: Mission, now_s: float) -> None:
    """Begin another attempt. The robot first moves back to its initial state, leg by leg."""
    core.counters.retry()
    core.attempts.failed()
    core.go(Event.RETRY, now_s)
    core.cancel_calls(now_s)
    core.holds.let_go()
    core.planning.forget()
    core.holds.unfinished_goes(UnfinishedEvent.RESET_BEGINS)
    core.move(FIRST_LEG, now_s)


def failed(core: Mission, now_s: float) -> None:
    """The attempt failed: retry while retries are left, then follow `on_max_task_retries`."""
    policy = core.task.task_retry
    if core.attempts.failures >= policy.max_task_retries:
        highest = policy.max_task_retries
        reason = f"failed again after {highest} {'retry' if highest == 1 else 'retries'}"
        limit_reached(core, policy.on_max_task_retries, Cause("max_task_retries", reason), now_s)
        return
    which = f"retry {core.attempts.failures + 1} of {policy.max_task_retries}"
    core.note("retry", "monitor", f"the monitor says failed; {which}")
    retry(core, now_s)


def _violation_limit(core: Mission, why: Cause, now_s: float) -> None:
    limit_reached(core, core.task.safety_and_slo_violation.on_max_violation, why, now_s)


def limit_reached(core: Mission, policy: str, why: Cause, now_s: float) -> None:
    """Follow the task's `on_max_...` policy: call a human here, or at the safe pose, or give the task up.

    A robot that must stand still because of a danger calls from where it is.
    """
    if policy == ABORT:
        finish(core, "failed", why.cause, why.reason, now_s)
    elif policy == RETURN_TO_SAFE_STATE and core.must_stand:
        stays = replace(why, reason=f"{why.reason}; the arm stays here because safety says unsafe")
        escalate(core, stays, now_s)
    elif policy == RETURN_TO_SAFE_STATE:
        core.note(RETURN_TO_SAFE_STATE, why.cause, f"{why.reason}; then a human is called", why.component)
        clear_the_cell(core, Event.RETREAT, why, now_s)
    else:
        escalate(core, why, now_s)


def clear_the_cell(core: Mission, event: Event, why: Cause, now_s: float) -> None:
    """Move to the safe pose and call a human there, or wherever the move ends."""
    core.go(event, now_s)
    _let_go_of_everything(core, now_s)
    core.person.call_later(why)
    for calls in core.calls.values():
        calls.due(now_s)  # safety watches this move from its beginning
    core.move(TO_SAFETY, now_s)


def escalate(core: Mission, why: Cause, now_s: float, event: Event = Event.ESCALATE) -> None:
    """Hold and ask a human. Only an operator's decision leads out (DESIGN: an escalation never clears itself)."""
    before = core.person.call_for if core.state is State.CLEARING and event is Event.ESCALATE else None
    core.go(event, now_s)
    _let_go_of_everything(core, now_s)
    core.hold(now_s)
    reason = why.reason
    if before is not None:
        reason = f"{why.reason}, on the way to the safe pose because of {before.cause}: {before.reason}"
    advice = why.advice or (before.advice if before is not None else "")
    reason = f"{reason}; {advice}" if advice else reason
    core.note(FallbackAction.STOP_AND_CALL_HUMAN.key, why.cause, reason, why.component)
    recovers = core.inputs.arm_fault and core.inputs.arm_recovers
    choices = (RECOVER_ARM, *CHOICES) if recovers else CHOICES
    core.out.append(core.person.call(why.cause, reason, choices))


def finish(core: Mission, outcome: str, cause: str, reason: str, now_s: float) -> None:
    """The task is over; the arm holds."""
    core.go(Event.FINISH, now_s)
    _let_go_of_everything(core, now_s)
    core.hold(now_s)
    if core.person.alert is not None:
        settle(core, "the end of the task", outcome, reason, now_s)
    core.note(outcome, cause, reason)
    core.out.append(TaskEnded(outcome, reason, core.task_number))


def settle(core: Mission, by: str, choice: str, reason: str, now_s: float) -> None:
    """Close the open alert."""
    core.out.append(ClearAlert(core.person.settle(by, choice, now_s), reason))


def _let_go_of_everything(core: Mission, now_s: float) -> None:
    core.cancel_calls(now_s)
    core.holds.let_go()
    core.holds.unfinished_goes(UnfinishedEvent.DROP)
