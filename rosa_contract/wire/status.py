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
    """One component's calls against their deadline, counted on the robot. 0 ms: no call has ended in time yet."""

    name: str = declared(NAME, "the component")
    slo_ms: float = declared(MS, "its deadline")
    last_ms: float = declared(MS, "the last call in time")
    p99_ms: float = declared(MS, "of the last calls in time")
    sent: int = declared(ID, "calls")
    in_time: int = declared(ID, "calls answered in time")
    missed: int = declared(ID, "calls whose deadline was missed")
    consecutive_missed: int = declared(ID, "the last ones of these in a row")
    late_discarded: int = declared(ID, "answers that came too late")


@dataclass(frozen=True)
class OpenAlert:
    """What a person is asked."""

    alert_id: int = declared(ID, "its number")
    cause: str = declared(NAME, "why")
    reason: str = declared(WORDS, "the same in words")
    choices: Sequence[str] = declared(Several(NAME, MAX_CHOICES), "what may be decided")


@dataclass(frozen=True)
class EndedCall:
    """A call that ended since the report before."""

    component: str = declared(NAME, "which one")
    request_id: int = declared(ID, "the number of its request")
    ending: str = declared(Choice(ENDINGS), "how it ended, as the robot counts its deadline")
    duration_ms: float = declared(MS, "from sending to its end")
    age_ms: float = declared(AGE, "since its end")


@dataclass(frozen=True)
class TakenDecision:
    """A decision of the robot's own core."""

    action: str = declared(NAME, "what it does")
    cause: str = declared(SHORT_TEXT, "why")
    reason: str = declared(WORDS, "the same in words")
    component: str = declared(SHORT_TEXT, "whose call led to it; empty: none")
    age_ms: float = declared(AGE, "since then")


@dataclass(frozen=True)
class Audit:
    """What a person decided, or tried to decide."""

    alert_id: int = declared(ID, "which alert; 0: an emergency stop, or its release")
    choice: str = declared(SHORT_TEXT, "what was chosen")
    decided_by: str = declared(SHORT_TEXT, "who")
    why: str = declared(WORDS, "that person's words")
    accepted: bool = declared(FLAG, "the robot took the decision")
    reason: str = declared(WORDS, "why not; empty when it did")
    age_ms: float = declared(AGE, "since then", 0.0)


@dataclass(frozen=True)
class Status:
    """How a robot is, and what happened since its report before."""

    state: str = declared(NAME, "of its task")
    reason: str = declared(WORDS, "why it does not go on; empty if it does", "")
    running: bool = declared(FLAG, "a task is under way", False)
    round: int = declared(ID, "rounds of this task", 0, always=True)
    attempt: int = declared(ID, "which attempt", 0, always=True)
    stopped: bool = declared(FLAG, "the emergency stop is latched", False)
    components: Sequence[ComponentStatus] = declared(
        Several(Object(ComponentStatus), MAX_COMPONENTS), "their calls", ()
    )
    alert: OpenAlert | None = declared(Object(OpenAlert), "without it nobody has to decide", None)
    calls: Sequence[EndedCall] = declared(
        Several(Object(EndedCall), MAX_CALLS), "that ended; further ones are counted in the totals alone", ()
    )
    decisions: Sequence[TakenDecision] = declared(
        Several(Object(TakenDecision), MAX_DECISIONS), "of its core", ()
    )
    audits: Sequence[Audit] = declared(Several(Object(Audit), MAX_AUDITS), "of persons", ())
    recording: str = declared(
        WORDS, "where it is recorded, as MACHINE:PATH; empty: nowhere that it knows", ""
    )
    told: str = declared(WORDS, "what its System 1 is told in this task: its plan, or the prompt", "")


@dataclass(frozen=True)
class Decide:
    """A person's decision, to be judged by the robot as one that comes over ROS."""

    number: int = declared(ID, "of the question; its `Decided` has the same")
    alert_id: int = declared(ID, "which alert")
    choice: str = declared(NAME, "what was chosen")
    decided_by: str = declared(NAME, "who")
    why: str = declared(WORDS, "that person's words", "")


@dataclass(frozen=True)
class Decided:
    """Whether the robot took the decision."""

    number: int = declared(ID, "of the question")
    accepted: bool = declared(FLAG, "it did", False)
    cause: str = declared(SHORT_TEXT, "why not; empty when it did", "")
    reason: str = declared(WORDS, "the same in words", "")


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
