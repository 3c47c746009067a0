"""What a robot tells about itself besides its calls, and how a person's decision reaches it over the same connection.

A robot reports where its gateway's welcome asks for it (`Welcome.status_hz`). What happened since the report before
is in it, so that a report that replaces the one before loses nothing that was told. Ages instead of times: clocks of
two machines are never compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rosa_contract.wire.containers import Several
from rosa_contract.wire.rules import FLAG, ID, NAME, SHORT_TEXT, Choice, Number, Text, declared
from rosa_contract.wire.schema import Object, field_reader

EMERGENCY_STOP = "emergency_stop"
RELEASE_EMERGENCY_STOP = "release_emergency_stop"
ARM_CHOICES = (EMERGENCY_STOP, RELEASE_EMERGENCY_STOP)  # they answer no alert: their `alert_id` is 0

IN_TIME, MISSED, CANCELLED = "in_time", "missed", "cancelled"
ENDINGS = (IN_TIME, MISSED, CANCELLED)  # of a call, as the robot counts its deadline

# Of a report: something happened; somebody is asked; persons decided.
HAS_NEWS, HAS_ALERT, HAS_AUDITS = 1, 2, 4

MAX_STATUS_HZ = 10.0
MAX_COMPONENTS = 16
MAX_CHOICES = 8
MAX_CALLS = 64  # that ended since the report before; further ones are counted in the totals alone
MAX_DECISIONS = 16
MAX_AUDITS = 8
MAX_WORDS = 240  # characters of a reason; longer ones are cut
MAX_AGE_MS = 600_000.0


MS = Number(0.0, 1e9)
AGE = Number(0.0, MAX_AGE_MS)
WORDS = Text(MAX_WORDS)


@dataclass(frozen=True)
class ComponentStatus:
    """Deadline statistics of one component, counted on the robot. 0 ms: no call has ended in time yet."""

    name: str = declared(NAME, "component name")
    slo_ms: float = declared(MS, "its deadline (SLO)")
    last_ms: float = declared(MS, "duration of the last call that was in time")
    p99_ms: float = declared(MS, "99th percentile of recent calls that were in time")
    sent: int = declared(ID, "number of calls sent")
    in_time: int = declared(ID, "number of calls answered in time")
    missed: int = declared(ID, "number of missed deadlines")
    consecutive_missed: int = declared(ID, "number of deadlines missed in a row, up to now")
    late_discarded: int = declared(ID, "number of late answers that were discarded")


@dataclass(frozen=True)
class OpenAlert:
    """An alert that waits for an operator's decision."""

    alert_id: int = declared(ID, "alert number")
    cause: str = declared(NAME, "why it was raised")
    reason: str = declared(WORDS, "explanation of the cause")
    choices: Sequence[str] = declared(Several(NAME, MAX_CHOICES), "possible decisions")


@dataclass(frozen=True)
class EndedCall:
    """A call that ended since the last report."""

    component: str = declared(NAME, "component name")
    request_id: int = declared(ID, "number of the request")
    ending: str = declared(Choice(ENDINGS), "how it ended, by the robot's own deadline")
    duration_ms: float = declared(MS, "time from sending to the end")
    age_ms: float = declared(AGE, "time since the end")


@dataclass(frozen=True)
class TakenDecision:
    """A decision made by the robot itself."""

    action: str = declared(NAME, "what it decided to do")
    cause: str = declared(SHORT_TEXT, "why")
    reason: str = declared(WORDS, "explanation of the cause")
    component: str = declared(SHORT_TEXT, "component whose call caused it; empty: none")
    age_ms: float = declared(AGE, "time since the decision")


@dataclass(frozen=True)
class Audit:
    """An operator's decision, accepted or not."""

    alert_id: int = declared(ID, "alert number; 0: an emergency stop or its release")
    choice: str = declared(SHORT_TEXT, "the choice made")
    decided_by: str = declared(SHORT_TEXT, "who decided")
    why: str = declared(WORDS, "the reason given")
    accepted: bool = declared(FLAG, "whether the robot accepted the decision")
    reason: str = declared(WORDS, "why it was rejected; empty if accepted")
    age_ms: float = declared(AGE, "time since the decision", 0.0)


@dataclass(frozen=True)
class Status:
    """A robot's state, and what happened since its last report."""

    state: str = declared(NAME, "state of its task")
    reason: str = declared(WORDS, "why the task is not progressing; empty if it is", "")
    running: bool = declared(FLAG, "a task is running", False)
    round: int = declared(ID, "number of rounds in this task", 0, always=True)
    attempt: int = declared(ID, "attempt number", 0, always=True)
    stopped: bool = declared(FLAG, "the emergency stop is latched", False)
    components: Sequence[ComponentStatus] = declared(
        Several(Object(ComponentStatus), MAX_COMPONENTS), "deadline statistics per component", ()
    )
    alert: OpenAlert | None = declared(Object(OpenAlert), "the open alert; none: no decision is needed", None)
    calls: Sequence[EndedCall] = declared(
        Several(Object(EndedCall), MAX_CALLS),
        "calls that ended since the last report; any beyond the limit count only in the totals",
        (),
    )
    decisions: Sequence[TakenDecision] = declared(
        Several(Object(TakenDecision), MAX_DECISIONS), "decisions that the robot made itself", ()
    )
    audits: Sequence[Audit] = declared(Several(Object(Audit), MAX_AUDITS), "decisions by operators", ())
    recording: str = declared(
        WORDS, "where the run is recorded, as MACHINE:PATH; empty: no known recording", ""
    )
    told: str = declared(WORDS, "instruction for System 1 in this task: the plan, or the prompt", "")


@dataclass(frozen=True)
class Decide:
    """An operator's decision. The robot checks it like one that arrives over ROS."""

    number: int = declared(ID, "number of this message, repeated in `Decided`")
    alert_id: int = declared(ID, "alert number")
    choice: str = declared(NAME, "the choice made")
    decided_by: str = declared(NAME, "who decided")
    why: str = declared(WORDS, "the reason given", "")


@dataclass(frozen=True)
class Decided:
    """The robot's answer to `Decide`."""

    number: int = declared(ID, "number from `Decide`")
    accepted: bool = declared(FLAG, "whether the robot accepted the decision", False)
    cause: str = declared(SHORT_TEXT, "why it was rejected; empty if accepted", "")
    reason: str = declared(WORDS, "explanation of the cause", "")


_ALERT = field_reader(Status, "alert")
_AUDITS = field_reader(Status, "audits")


def open_alert(header: Mapping[str, Any]) -> OpenAlert | None:
    """The alert of a report, which a gateway reads in each of them. Raises `CodecError`."""
    if "alert" not in header:
        return None
    alert: OpenAlert = _ALERT(header["alert"])
    return alert


def held_in(header: Mapping[str, Any]) -> int:
    """Which of `HAS_NEWS`, `HAS_ALERT` and `HAS_AUDITS` hold for a report: nobody has to read it again for that."""
    return (
        (HAS_NEWS if any(header.get(key) for key in ("calls", "decisions", "audits")) else 0)
        | (HAS_ALERT if "alert" in header else 0)
        | (HAS_AUDITS if header.get("audits") else 0)
    )


def reported_audits(header: Mapping[str, Any]) -> Sequence[Audit]:
    """What persons decided, in a report; a gateway reads this and the alert, and no more. Raises `CodecError`."""
    if "audits" not in header:
        return ()
    audits: Sequence[Audit] = _AUDITS(header["audits"])
    return audits
