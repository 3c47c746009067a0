"""What a robot tells its gateway about itself, and when. Pure: the loop hands in commands and a time.

A report goes out at the rate that the gateway asked for, and early when a person would want to know: an alert, the
emergency stop, another kind of state, an operator's decision. Nothing is kept for a gateway that does not ask.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from math import inf

from rosa_client.runtime.calls import ComponentCalls
from rosa_client.runtime.commands import CallEnded, Command, Decision
from rosa_client.runtime.machines.task_machine import State
from rosa_client.runtime.runtime import RobotRuntime
from rosa_contract.config.tasks import SYSTEM1
from rosa_contract.wire.bounds import MAX_NAME_CHARS
from rosa_contract.wire.status import (
    MAX_AGE_MS,
    MAX_AUDITS,
    MAX_CALLS,
    MAX_CHOICES,
    MAX_COMPONENTS,
    MAX_DECISIONS,
    MAX_WORDS,
    Audit,
    ComponentStatus,
    EndedCall,
    OpenAlert,
    Status,
    TakenDecision,
)

MIN_BETWEEN_S = 0.1  # of two reports, whatever happens
# A robot goes from one to the other with every chunk; all other changes of state are worth their own report.
WORKING = (State.INFERRING, State.EXECUTING)


class Reporter:
    """Collects what happens until the next report."""

    def __init__(self, recording: str = "") -> None:
        """`recording`: where the robot is recorded, as MACHINE:PATH; empty: nowhere."""
        self._recording = recording[-MAX_WORDS:]
        self._calls: deque[tuple[float, CallEnded]] = deque(maxlen=MAX_CALLS)
        self._decisions: deque[tuple[float, Decision]] = deque(maxlen=MAX_DECISIONS)
        self._audits: deque[tuple[float, Audit]] = deque(maxlen=MAX_AUDITS)
        self._last_s = -inf
        self._last: tuple[object, ...] = ()  # what a person would want to know a change of at once

    def hear(self, command: Command, now_s: float) -> None:
        """One of the core's commands was carried out."""
        if isinstance(command, CallEnded):
            self._calls.append((now_s, command))
        elif isinstance(command, Decision) and command.action != "execute":
            self._decisions.append((now_s, command))

    def audited(self, audit: Audit, now_s: float) -> None:
        """A person has decided something, whichever way it came."""
        self._audits.append((now_s, audit))

    def due(self, core: RobotRuntime, rate_hz: float, now_s: float) -> Status | None:
        """The report that has to go out now, if one has. `rate_hz`: how often the gateway wants one; 0: never."""
        if rate_hz <= 0:
            return None
        state = State.EXECUTING if core.state in WORKING else core.state
        telling = (state, core.alert, core.inputs.emergency_stop)
        early = telling != self._last or bool(self._audits)
        if now_s - self._last_s < (MIN_BETWEEN_S if early else 1 / rate_hz):
            return None
        self._last_s, self._last = now_s, telling
        return self._report(core, now_s)

    def _report(self, core: RobotRuntime, now_s: float) -> Status:
        alert = core.alert
        running = core.state is not State.IDLE
        report = Status(
            state=core.state.value,
            reason=_waits_for(core),
            running=running,
            round=core.counters.rounds,
            attempt=core.attempt if running else 0,
            stopped=core.inputs.emergency_stop,
            components=tuple(component_status(one) for one in list(core.calls.values())[:MAX_COMPONENTS]),
            alert=None
            if alert is None
            else OpenAlert(alert.alert_id, alert.cause, cut(alert.reason), alert.choices[:MAX_CHOICES]),
            calls=tuple(
                EndedCall(one.component, one.request_id, one.ending, one.duration_ms, _age_ms(at_s, now_s))
                for at_s, one in self._calls
            ),
            decisions=tuple(
                TakenDecision(one.action, one.cause, cut(one.reason), one.component, _age_ms(at_s, now_s))
                for at_s, one in self._decisions
            ),
            audits=tuple(replace(one, age_ms=_age_ms(at_s, now_s)) for at_s, one in self._audits),
            recording=self._recording,
            told=cut(core.plan or core.calls[SYSTEM1].component.prompt) if running else "",
        )
        for news in (self._calls, self._decisions, self._audits):
            news.clear()
        return report


def _waits_for(core: RobotRuntime) -> str:
    """Why the robot does not go on; empty while it works, and without a task."""
    if core.alert is not None:
        return cut(core.alert.reason)
    if core.state is State.IDLE or core.state in WORKING or core.last_decision is None:
        return ""
    return cut(core.last_decision.reason)


def component_status(calls: ComponentCalls) -> ComponentStatus:
    """One component's calls against its deadline."""
    latencies = sorted(calls.latencies_ms)
    return ComponentStatus(
        calls.name,
        calls.component.slo_ms,
        calls.latencies_ms[-1] if latencies else 0.0,
        latencies[min(len(latencies) - 1, len(latencies) * 99 // 100)] if latencies else 0.0,
        calls.sent,
        calls.in_time,
        calls.missed,
        calls.consecutive_missed,
        calls.late_discarded,
    )


def audit_of(alert_id: int, choice: str, decided_by: str, why: str, accepted: bool, reason: str) -> Audit:
    """What is kept of a decision: whoever sent it, no word of it is longer than a report can carry."""
    who, what = decided_by[:MAX_NAME_CHARS], choice[:MAX_NAME_CHARS]
    return Audit(alert_id, what, who, cut(why), accepted, cut(reason))


def cut(words: str) -> str:
    """A text that fits into a report."""
    return words if len(words) <= MAX_WORDS else words[: MAX_WORDS - 1] + "…"


def _age_ms(at_s: float, now_s: float) -> float:
    return min(max(0.0, now_s - at_s) * 1000, MAX_AGE_MS)
