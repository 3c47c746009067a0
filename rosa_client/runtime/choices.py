"""What an operator may decide, and what follows. The first decision on an alert counts; later ones are refused."""

from __future__ import annotations

from rosa_client.motion.emergency_stop import STOPPED
from rosa_client.motion.refusal import Refusal
from rosa_client.runtime.commands import RETURNING, RecoverArm
from rosa_client.runtime.ladder import RECOVER_ARM, clear_the_cell, finish, retry, settle
from rosa_client.runtime.machines.side_machines import SafetyEvent
from rosa_client.runtime.machines.task_machine import Event, State
from rosa_client.runtime.mission import Mission
from rosa_client.runtime.person import Cause

ALERT_NUMBERS = 999_999  # six digits: short enough to read out


def first_alert(wall_s: float) -> int:
    """Number of the first alert of a runtime that starts at `wall_s`, s since 1970.

    An answer to an alert of the previous runtime must not match an alert of this one. Robots raise fewer than one alert
    per second, so no number repeats within eleven days. 0 means no alert.
    """
    return int(wall_s) % ALERT_NUMBERS + 1


def refusal(core: Mission, alert_id: int, choice: str, decided_by: str, now_s: float) -> Refusal | None:
    """Why this decision cannot be accepted; None when it can.

    Causes: missing_text, alert_settled, nothing_to_decide, unknown_alert, unknown_choice, emergency_stop,
    no_arm.
    """
    if not decided_by.strip():
        return Refusal("missing_text", "decided_by: expected the name of who decides, got nothing")
    alert = core.person.alert
    if alert_id in core.person.settled:
        settled = core.person.settled[alert_id]
        ago = f"{now_s - settled.at_s:.1f} s ago"
        is_open = f"; the open one is {alert.alert_id}" if alert is not None else ""
        reason = f"alert {alert_id} is settled: {settled.by} decided {settled.choice} {ago}{is_open}"
        return Refusal("alert_settled", reason)
    if alert is None or core.state is not State.WAITING_FOR_HUMAN:
        return Refusal("nothing_to_decide", f"nothing to decide: the robot is {core.state.value}")
    if alert_id != alert.alert_id:
        reason = f"there is no alert {alert_id}; the open one is {alert.alert_id}"
        return Refusal("unknown_alert", reason)
    if choice not in alert.choices:
        reason = f"choice: expected one of {', '.join(alert.choices)}, got {choice[:40]!r}"
        return Refusal("unknown_choice", reason)
    if core.inputs.emergency_stop and choice != "abort":
        return STOPPED
    if choice == RECOVER_ARM and core.inputs.arm_fault and not core.inputs.arm_recovers:
        return Refusal("no_arm", "the arm node of this robot does not answer, so nobody recovers the arm")
    return None


def carry_out(core: Mission, choice: str, decided_by: str, now_s: float) -> None:
    """Carry out an accepted decision. All counters that can lead to an alert start again from zero.

    Recovering the arm settles nothing: the alert stays, and whether to go on is another decision.
    """
    alert = core.person.alert
    assert alert is not None
    if choice == RECOVER_ARM:
        core.note(choice, "operator", f"{decided_by} decided: {choice}")
        core.out.append(RecoverArm())
        return
    settle(core, decided_by, choice, f"{decided_by} decided: {choice}", now_s)
    if choice == "abort":
        finish(core, "aborted", "operator", f"{decided_by} aborted the task", now_s)
        return
    for calls in core.calls.values():
        calls.forgive()
    core.holds.forgive()
    core.attempts.forgive()
    core.holds.safety_goes(SafetyEvent.ASK_AGAIN)
    core.excuse_arm()
    core.note(choice, "operator", f"{decided_by} decided: {choice}")
    if core.inputs.arm_state == RETURNING:
        core.note("wait", "arm_returns", f"{choice} waits: {core.inputs.arm_fault}")
    if choice == "return_to_safe_state":
        clear_the_cell(core, Event.CLEAR_THE_CELL, Cause(alert.cause, alert.reason), now_s)
    elif choice == "retry":
        retry(core, now_s)
        core.attempts.forgive()
        core.planning.forget_steps()  # whoever chooses this may have changed the scene
    else:
        core.go(Event.RESUME, now_s)
        core.begin_attempt(now_s)
        core.hold(now_s)  # shows whether the arm takes orders again; with a fault it refuses this one
