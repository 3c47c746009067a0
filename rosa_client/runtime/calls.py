"""The calls of one component: at most one in flight, each ending exactly once, in time, missed or cancelled."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from math import floor, inf

from rosa_client.runtime.commands import CANCELLED, CallEnded
from rosa_contract.config.tasks import Component

WINDOW = 512  # latencies kept for percentiles
ROUNDING = 1e-6  # of a period: a call at its time is not one of the time before


class Ending(Enum):
    """How a response matches the calls."""

    IN_TIME = "in_time"
    LATE = "late"  # its deadline had passed
    UNKNOWN = "unknown"  # cancelled, or never sent


@dataclass
class ComponentCalls:
    """One component of one robot. Deadlines are counted here, on the robot, from the moment of sending."""

    name: str
    component: Component
    request_id: int | None = None  # in flight
    sent_s: float = 0.0
    deadline_s: float = 0.0
    resend_after_s: float = 0.0  # after a miss: not before the deadline of the missed call
    due_s: float = 0.0  # next call of a periodic component
    turn_s: float = 0.0  # when the last call had its turn at the rate that the server allows
    asked_s: float = -inf  # when a permit was asked for, the last time; -inf: it was not, since the last call
    wanted_s: float = inf  # when it was the first time
    about: int = 0  # the observation of the last call
    consecutive_missed: int = 0
    sent: int = 0
    in_time: int = 0
    missed: int = 0
    cancelled: int = 0
    late_discarded: int = 0
    latencies_ms: deque[float] = field(default_factory=lambda: deque(maxlen=WINDOW))  # of calls in time
    _overdue: set[int] = field(default_factory=set)
    _begins: bool = True  # nothing was sent since the attempt began

    @property
    def in_flight(self) -> bool:
        return self.request_id is not None

    def next_turn_s(self, period_s: float, catch_up: float) -> float:
        """When the rate allows the next call. A late robot may make up for `catch_up` periods (a token bucket)."""
        if not self.sent:
            return -inf
        return max(self.turn_s, self.sent_s - catch_up * period_s) + period_s

    def begin(self, now_s: float) -> None:
        """Another attempt: it is due now, and may be sent at once."""
        self.due_s = self.resend_after_s = now_s
        self._begins = True

    def due(self, now_s: float) -> None:
        """It is called now, whatever its period says."""
        self.due_s = now_s

    def keep_phase(self, first_s: float, now_s: float, held: bool = False) -> None:
        """The server has given it a phase: calls are due at `first_s` and every period after it.

        An attempt that begins later calls at once, as a hold does (`held`), and then at these times: the server has put
        those of others between.
        """
        self.due_s = max(self.due_s, first_s)
        if self.component.freq_hz is not None and (self._begins or held) and -inf < first_s <= now_s:
            every_s = 1 / self.component.freq_hz
            self.due_s = first_s + every_s * floor((now_s - first_s) / every_s + ROUNDING)

    def again_after(self, again_s: float) -> None:
        """It is not sent again before then."""
        self.resend_after_s = again_s

    def forgive(self) -> None:
        """Misses in a row start again from zero, since a person knows of them."""
        self.consecutive_missed = 0

    def ask(self, now_s: float) -> None:
        """A permit is asked for."""
        self.asked_s, self.wanted_s = now_s, min(now_s, self.wanted_s)

    def send(
        self,
        request_id: int,
        now_s: float,
        period_s: float = 0.0,
        catch_up: float = 0.0,
        permitted: bool = False,
        about: int = 0,
    ) -> None:
        """A request leaves now, about the observation of that number; `period_s` and `catch_up` as for `next_turn_s`.

        With a permit it takes no turn.
        """
        if self.request_id is not None:
            raise RuntimeError(
                f"{self.name}: request {self.request_id} is still in flight; end it before sending another"
            )
        takes_turn = self.sent > 0 and not permitted
        self.turn_s = (
            max(self.next_turn_s(period_s, catch_up), now_s - catch_up * period_s) if takes_turn else now_s
        )
        self.asked_s, self.wanted_s = -inf, inf
        self.request_id = request_id
        self.about = about
        self.sent_s = now_s
        self.deadline_s = now_s + self.component.slo_ms / 1000
        self.sent += 1
        self._begins = False
        if self.component.freq_hz is not None:
            # Calls that fell due while the robot was busy are skipped, not caught up, and later ones keep their times.
            # A call that is early moves those after it, so that none comes later than one period.
            every_s = 1 / self.component.freq_hz
            late_s = max(0.0, now_s - self.due_s)
            self.due_s = min(self.due_s, now_s) + every_s * (1 + late_s // every_s)

    def answer(self, request_id: int, now_s: float) -> Ending:
        """A response to `request_id` arrives now, after `miss` was called for every overdue call.

        Only `IN_TIME` may be used; the caller then ends the call with `succeed` or `miss`.
        """
        if request_id in self._overdue:
            self._overdue.discard(request_id)
            self.late_discarded += 1
            return Ending.LATE
        if request_id != self.request_id:
            return Ending.UNKNOWN
        return Ending.IN_TIME

    def succeed(self, now_s: float) -> CallEnded:
        """The call in flight ended in time with a usable answer."""
        self.in_time += 1
        self.consecutive_missed = 0
        self.latencies_ms.append((now_s - self.sent_s) * 1000)
        return self._end("in_time", now_s)

    def miss(self, now_s: float) -> CallEnded:
        """The call in flight ends without a usable response: overdue, or refused by the server before its deadline."""
        if self.request_id is None:
            raise RuntimeError(f"{self.name}: nothing is in flight, so nothing can be missed")
        if now_s > self.deadline_s:
            self._overdue.add(self.request_id)
            if len(self._overdue) > WINDOW:
                self._overdue.discard(min(self._overdue))
        self.resend_after_s = max(now_s, self.deadline_s)
        self.missed += 1
        self.consecutive_missed += 1
        return self._end("missed", now_s)

    def cancel(self, now_s: float) -> CallEnded | None:
        """Forget the call in flight, if any: its answer will not be used."""
        if self.request_id is None:
            return None
        self.cancelled += 1
        return self._end(CANCELLED, now_s)

    def _end(self, ending: str, now_s: float) -> CallEnded:
        if self.request_id is None:
            raise RuntimeError(f"{self.name}: nothing is in flight, so nothing can end")
        request_id, self.request_id = self.request_id, None
        duration_ms = (now_s - self.sent_s) * 1000
        return CallEnded(self.name, request_id, ending, duration_ms, self.component.slo_ms)
