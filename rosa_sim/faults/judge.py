"""From what was seen to what happened, and from that to the promises that were broken. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from rosa_client.runtime.invariants import unanswered, while_waiting
from rosa_contract.config.tasks import SYSTEM1
from rosa_sim.faults.table import CONTROLLER, Fault
from rosa_sim.faults.watch import Alerted, WatchedEvents

HOLDING = 0  # rosa_interfaces/ArmStatus
IN_TIME, MISSED = "in_time", "missed"  # rosa_interfaces/Call
STOP_WITHIN_S = 0.25  # from the decision to an arm that holds, as an observer on ROS topics sees it
COMES_TO_REST_S = 0.5  # after the alert: the arm ramps down within its limits
SAME_MOMENT_S = 0.1  # a response and the order that follows it leave the runtime together
STILL_RAD = 2e-3  # an arm whose joints all move less than this
STILL_FOR_S = 0.1  # for this long stands still
BY_ITSELF = "the arm holds by itself"  # what the arm does about a fault before the runtime can
CALL = "stop_and_call_human"
SLOW = ("slo_missed", "late_result")  # these also happen by chance on a busy machine
MAX_SLOW = 1
# A controller that got no setpoint for some tens of ms catches up faster than it was told; a setpoint that jumps to a
# wrong measurement is a hundred times too fast.
MAX_CATCH_UP = 10.0
BENIGN = (
    "operator",
    "recovered",
    "asked_again",
    "actions_in_time",
    "task_started",
    "monitor",
    "monitor_says",
    "plan_in_time",
)


@dataclass(frozen=True)
class Happened:
    """One fault in one episode. Times in seconds; NaN: it did not happen."""

    lasted_s: float  # from switching it on until everything that it broke worked again
    detected_s: float  # fault on -> first decision (or report of the arm) with a cause of the table
    cause: str
    action: str
    holding_s: float  # fault on -> the arm holds
    stop_s: float  # detection -> the arm reports that it holds; it may still be coming to rest
    alert: str  # cause of the first alert; empty: none
    alerts: int
    misses: int  # calls that failed while the fault was on: late, or an error
    late_commands: int  # chunks played without an answer in time: must be 0
    moved_rad: float  # greatest motion of a joint between an alert and its decision: must be about 0
    played_while_waiting: int  # chunks ordered between an alert and its decision: must be 0
    outcome: str
    truth: str
    calls_seen: int
    recovered_s: float  # lifted -> the next chunk plays
    causes_seen: tuple[str, ...] = field(default=())
    # Detection -> the joints stand still; NaN: they stood before, or moved on as ordered.
    still_s: float = math.nan
    # How fast a controller without limits was told to move the arm at most, as a share of its joints' limits.
    told_share: float = math.nan


def happened(
    fault: Fault, events: WatchedEvents, on_s: float, whole_s: float, ended_s: float, outcome: str, truth: str
) -> Happened:
    """What happened in one episode. `on_s`: fault on; `whole_s`: fault lifted and everything works again."""
    detected_s, cause, action = _detection(fault, events, on_s)
    holding_s = _holding(events, on_s if np.isnan(detected_s) else detected_s)
    waits = _waits(events.alerts, ended_s)
    again = [play.seen_s for play in events.plays if play.seen_s > whole_s]
    return Happened(
        lasted_s=whole_s - on_s,
        detected_s=detected_s - on_s,
        cause=cause,
        action=action,
        holding_s=holding_s - on_s,
        stop_s=holding_s - detected_s,
        alert=next((alert.cause for alert in events.alerts if alert.active), ""),
        alerts=len({alert.number for alert in events.alerts if alert.active}),
        misses=sum(call.ending == MISSED and on_s < call.seen_s < whole_s for call in events.calls),
        late_commands=late_commands(events),
        moved_rad=max(
            (_motion(events, since_s + COMES_TO_REST_S, until_s) for since_s, until_s in waits), default=0.0
        ),
        played_while_waiting=while_waiting((play.seen_s for play in events.plays), waits),
        outcome=outcome,
        truth=truth,
        calls_seen=len(events.calls),
        recovered_s=(again[0] - whole_s) if again else float("nan"),
        causes_seen=tuple(
            dict.fromkeys(d.cause for d in events.decisions if d.seen_s > on_s and d.cause not in BENIGN)
        ),
        still_s=_still(events, detected_s) - detected_s,
    )


def broken(fault: Fault, seen: Happened) -> list[str]:
    """The promises that were broken, in words."""
    return slow(fault, seen) + wrong(fault, seen)


def slow(fault: Fault, seen: Happened) -> list[str]:
    """Promises about time. Load on the machine can break them, so tests of behaviour leave them out."""
    problems = []
    if seen.detected_s > fault.detect_s:
        problems.append(f"noticed after {seen.detected_s:.2f} s, promised {fault.detect_s:g} s")
    if seen.stop_s > STOP_WITHIN_S:
        problems.append(f"the arm held {seen.stop_s:.2f} s after that, promised {STOP_WITHIN_S:g} s")
    if 1.0 < seen.told_share <= MAX_CATCH_UP:
        problems.append(_told(seen))
    return problems


def wrong(fault: Fault, seen: Happened) -> list[str]:
    """Promises about behaviour."""
    problems = []
    if fault.causes and np.isnan(seen.detected_s):
        problems.append(f"not noticed: expected one of {', '.join(fault.causes)}")
    elif fault.causes and np.isnan(seen.stop_s):
        problems.append("the arm never held after that")
    if seen.action and seen.action not in (fault.action, CALL, BY_ITSELF):
        problems.append(f"it did {seen.action}, promised {fault.action}")
    if not fault.causes and not fault.alert:
        problems += _harm(seen)
    wanted = fault.escalates(seen.lasted_s)
    if wanted == "always" and not seen.alerts:
        problems.append(f"no human was called although it lasted {seen.lasted_s:.1f} s")
    if wanted == "never" and seen.alerts:
        problems.append(f"a human was called ({seen.alert}) although it lasted only {seen.lasted_s:.1f} s")
    if seen.alerts and fault.alert and seen.alert != fault.alert:
        problems.append(f"the alert says {seen.alert}, promised {fault.alert}")
    if seen.late_commands:
        problems.append(f"{seen.late_commands} chunks were played without an answer in time")
    if seen.played_while_waiting:
        problems.append(f"{seen.played_while_waiting} chunks were ordered while a human was waited for")
    if seen.moved_rad > fault.still_rad:
        problems.append(f"a joint moved {seen.moved_rad:.3f} rad while a human was waited for")
    if seen.told_share > MAX_CATCH_UP or (fault.place == CONTROLLER and math.isnan(seen.told_share)):
        problems.append(_told(seen))
    if not seen.calls_seen:
        problems.append("no call was reported, so nobody can tell late results apart")
    if (seen.outcome, seen.truth) != ("done", "done"):
        problems.append(f"the robot ended the task as {seen.outcome}, the cell says {seen.truth}")
    return problems


def _told(seen: Happened) -> str:
    return f"the controller was told to move at {seen.told_share:.2f} of the joints' speed limits"


def _harm(seen: Happened) -> list[str]:
    """What a harmless fault must not cause. One slow answer is the machine's fault."""
    problems = []
    if seen.misses > MAX_SLOW:
        problems.append(f"{seen.misses} calls failed, promised none")
    wrong = [cause for cause in seen.causes_seen if cause not in SLOW]
    if wrong:
        problems.append(f"decisions because of {', '.join(wrong)}, promised none")
    return problems


def late_commands(events: WatchedEvents) -> int:
    """Chunks that were ordered to be played without a System 1 call that ended in time just then.

    Found from the two topics alone: an order without such a call came from a result that was late, or from none.
    """
    in_time_s = (
        call.stamp_s
        for call in events.calls
        if call.component == SYSTEM1 and call.ending == IN_TIME and call.duration_ms <= call.slo_ms
    )
    plays = sorted(events.plays, key=lambda play: play.order)
    return unanswered((play.stamp_s for play in plays), in_time_s, SAME_MOMENT_S)


def _detection(fault: Fault, events: WatchedEvents, on_s: float) -> tuple[float, str, str]:
    """When a cause of the table was first reported, by the runtime or by the arm."""
    found = [
        (decision.seen_s, decision.cause, decision.action)
        for decision in events.decisions
        if decision.seen_s > on_s and decision.cause in fault.causes
    ]
    for arm in events.arm:
        if arm.seen_s > on_s and arm.cut_short and "arm_cut_short" in fault.causes:
            found.append((arm.seen_s, "arm_cut_short", BY_ITSELF))
        if arm.seen_s > on_s and arm.emergency_stop and "emergency_stop" in fault.causes:
            found.append((arm.seen_s, "emergency_stop", BY_ITSELF))
    return min(found, default=(float("nan"), "", ""))


def _holding(events: WatchedEvents, since_s: float) -> float:
    """When the arm first holds at or after `since_s`; NaN when it never does."""
    state = HOLDING
    for arm in events.arm:
        if arm.seen_s > since_s:
            if state == HOLDING:
                return since_s
            if arm.state == HOLDING:
                return arm.seen_s
        state = arm.state
    return since_s if state == HOLDING else float("nan")


def _still(events: WatchedEvents, since_s: float) -> float:
    """When the joints that moved at `since_s` first stand still, as far as they were seen to.

    NaN when they stood already, and when the arm was sent on before it had come to rest; the last that was seen of them
    when they never did.
    """
    sent_s = min((play.seen_s for play in events.plays if play.seen_s > since_s), default=float("inf"))
    seen = [one for one in events.joints if since_s <= one[0] < sent_s]
    if not seen:
        return float("nan")
    at_s = np.array([one[0] for one in seen])
    rad = np.array([one[1] for one in seen])
    for first, begin_s in enumerate(at_s):
        until_s = begin_s + STILL_FOR_S
        if at_s[-1] < until_s:
            break
        if np.ptp(rad[first : np.searchsorted(at_s, until_s, "right")], axis=0).max() <= STILL_RAD:
            return float(begin_s) if first else float("nan")
    return float("nan") if np.isfinite(sent_s) else float(at_s[-1])


def _waits(alerts: list[Alerted], ended_s: float) -> list[tuple[float, float]]:
    """From each alert to its decision."""
    spans: dict[int, tuple[float, float]] = {}
    for alert in alerts:
        begin_s = spans.get(alert.number, (alert.seen_s, ended_s))[0]
        spans[alert.number] = (begin_s, ended_s if alert.active else alert.seen_s)
    return list(spans.values())


def _motion(events: WatchedEvents, since_s: float, until_s: float) -> float:
    """The greatest motion of any joint in this time, rad; 0 when fewer than two states were seen."""
    seen = [joints for at_s, joints in events.joints if since_s < at_s < until_s]
    return float(np.ptp(np.array(seen), axis=0).max()) if len(seen) > 1 else 0.0
