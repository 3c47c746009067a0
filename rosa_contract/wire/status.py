"""What a robot tells about itself besides its calls, and how a person's decision reaches it over the same connection.

A robot reports where its gateway's welcome asks for it (`Welcome.status_hz`). What happened since the report before
is in it, so that a report that replaces the one before loses nothing that was told. Ages instead of times: clocks of
two machines are never compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

EMERGENCY_STOP = "emergency_stop"
RELEASE_EMERGENCY_STOP = "release_emergency_stop"
ARM_CHOICES = (EMERGENCY_STOP, RELEASE_EMERGENCY_STOP)  # they answer no alert: their `alert_id` is 0

IN_TIME, MISSED, CANCELLED = "in_time", "missed", "cancelled"
ENDINGS = (IN_TIME, MISSED, CANCELLED)  # of a call, as the robot counts its deadline

MAX_STATUS_HZ = 10.0
MAX_COMPONENTS = 16
MAX_CHOICES = 8
MAX_CALLS = 64  # that ended since the report before; further ones are counted in the totals alone
MAX_DECISIONS = 16
MAX_AUDITS = 8
MAX_WORDS = 240  # characters of a reason; longer ones are cut
MAX_AGE_MS = 600_000.0


@dataclass(frozen=True)
class ComponentStatus:
    """One component's calls against their deadline, counted on the robot. 0 ms: no call has ended in time yet."""

    name: str
    slo_ms: float
    last_ms: float
    p99_ms: float  # of the last calls in time
    sent: int
    in_time: int
    missed: int
    consecutive_missed: int
    late_discarded: int


@dataclass(frozen=True)
class OpenAlert:
    """What a person is asked."""

    alert_id: int
    cause: str
    reason: str
    choices: Sequence[str]


@dataclass(frozen=True)
class EndedCall:
    component: str
    request_id: int
    ending: str  # one of ENDINGS
    duration_ms: float
    age_ms: float


@dataclass(frozen=True)
class TakenDecision:
    """A decision of the robot's own core."""

    action: str
    cause: str
    reason: str
    component: str
    age_ms: float


@dataclass(frozen=True)
class Audit:
    """What a person decided, or tried to decide. `alert_id` 0: an emergency stop, or its release."""

    alert_id: int
    choice: str
    decided_by: str
    why: str
    accepted: bool
    reason: str  # why not; empty when accepted
    age_ms: float = 0.0


@dataclass(frozen=True)
class Status:
    """Robot -> gateway. `alert`: None while nobody has to decide. `reason`: why it does not go on; empty if it does."""

    state: str
    reason: str = ""
    running: bool = False  # a task is
    round: int = 0
    attempt: int = 0
    stopped: bool = False  # the emergency stop is latched
    components: Sequence[ComponentStatus] = ()
    alert: OpenAlert | None = None
    calls: Sequence[EndedCall] = ()
    decisions: Sequence[TakenDecision] = ()
    audits: Sequence[Audit] = ()


@dataclass(frozen=True)
class Decide:
    """Gateway -> robot: a person's decision, to be judged by the robot as one that comes over ROS. `number`: of the
    question; its `Decided` has the same."""

    number: int
    alert_id: int
    choice: str
    decided_by: str
    why: str = ""


@dataclass(frozen=True)
class Decided:
    """Robot -> gateway: whether it took the decision. `cause` and `reason`: why not; empty when it did."""

    number: int
    accepted: bool
    cause: str = ""
    reason: str = ""
