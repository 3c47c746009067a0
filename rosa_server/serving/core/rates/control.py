"""The control law: when the robots of a queue may call, how large its batches are, and whether robots keep to it.
The page: docs/rates.md.

The rates of the schedule are the floor: a robot that hears nothing keeps to them. Beyond it
1. a robot that is ready asks, and is told to call when a server is about to be free for it (`grant`). It waits without
   an observation, so a call spends its deadline on the server and not in the queue;
2. batches are as large as the SLO allows with the service times and the robots' way as they were measured lately;
3. while nearly every robot that asks finds an idle server, robots need not ask (`pace`).

What a robot sends or has decoded beyond its share (`RateMeter`, `DecodeBudget`) runs when nothing else waits.

Nothing is integrated: each of these follows anew from what the last seconds have shown, so that no state is worse than
a start, and none lasts longer than its cause and `MEMORY_S`. Pure: time is an argument.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, inf

from rosa_contract.config.tasks import GOAL_COUPLED
from rosa_server.serving.core.queueing.ledger import Call
from rosa_server.serving.core.rates.permits import MEMORY_S, Key, Permit, Permits
from rosa_server.serving.core.workers.worker_state import WorkerState
from rosa_server.timing.batches import SPARE, BatchProfile, largest, together

WINDOW_S = 1.0  # `window` is called so often
MAX_PACE = 20.0  # as good as no limit: a robot that may call this often need not ask
ROOM, ROOM_LEFT = (
    0.95,
    0.85,
)  # of those that ask, this share finds an idle server: none need ask; until it is this
MAX_LATE = 0.01  # share of late calls with which that holds

MAX_SPARE = 1.3  # what is measured of slow batches counts up to this multiple of their usual time
SLOWEST = 0.98  # of the batches of the last seconds: the slower ones are too few to matter
MIN_RUNS, MAX_RUNS = 50, 1000  # batches, from which that follows
LOOK_EVERY_S = 0.0005  # permits are looked at again because time has passed

TOLERANCE_S = 0.05  # what a network delays one call and not the next
SPARE_PERIODS = (
    0.5  # periods beyond what a robot may make up for: its clock and ours begin at different calls
)

DECODING_SHARE = 0.25  # CPU seconds per second, as for a robot's messages at the gateway
DECODING_BURST_S = 0.5  # CPU seconds at once
RECOVERS_IN_S = 10.0  # after its last dear picture a robot is as any other
MAX_DEBT_S = DECODING_BURST_S + DECODING_SHARE * RECOVERS_IN_S


class RateControl:
    """Of one queue."""

    def __init__(self, profile: BatchProfile) -> None:
        """`profile`: times of its batches, as they are learned."""
        self.line = Permits()
        self.pace = 1.0  # multiple of its planned rate at which a robot may call without asking
        # What it is held to: it hears of its pace with an answer, so that of the window before counts.
        self.tolerated = 1.0
        self._profile = profile
        self._asked = self._found_room = self._ended = self._late = 0  # in this window
        # Batches: when they ended, and how many times their usual time they took.
        self._runs: deque[tuple[float, float]] = deque(maxlen=MAX_RUNS)
        self._spare = SPARE
        self._limited, self._planned, self._smallest, self._reserved = False, 1, 1, 0  # see `fit`
        self._blocked_s, self._always_ask = 0.0, False
        self._sizes: dict[float, int] = {}  # by SLO, since the last `fit`

    def begin_anew(self, profile: BatchProfile) -> None:
        """Its batches are of another model from now on, with times of their own."""
        self._profile = profile
        self._runs.clear()
        self._sizes.clear()

    # -- what it hears -------------------------------------------------------------------------------------------------

    def asked(self, now_s: float, room: bool) -> None:
        """A robot has asked, or called without asking, and would find an idle server or not."""
        self._asked += 1
        self._found_room += room

    def ended(self, late: bool) -> None:
        """A call has got its answer, and will be late at its robot or not."""
        self._ended += 1
        self._late += late

    def ran(self, now_s: float, usual_s: float, took_s: float) -> None:
        """A batch has run."""
        if usual_s > 0:
            self._runs.append((now_s, took_s / usual_s))

    # -- what it decides -----------------------------------------------------------------------------------------------

    def window(self, now_s: float) -> None:
        """Once a second: forget what is old, and say whether robots need ask."""
        self._profile.window()
        self.line.window(now_s)
        while self._runs and self._runs[0][0] < now_s - MEMORY_S:
            self._runs.popleft()
        self._spare = SPARE
        if len(self._runs) >= MIN_RUNS:
            slowest = sorted(times for _, times in self._runs)[int(SLOWEST * len(self._runs))]
            self._spare = min(MAX_SPARE, max(SPARE, slowest))
        enough = ROOM_LEFT if self.pace > 1 else ROOM
        free = self._found_room >= max(1.0, enough * self._asked) and self._late <= MAX_LATE * self._ended
        before, self.pace = self.pace, MAX_PACE if free and not self._always_ask else 1.0
        self.tolerated = max(before, self.pace)
        self._asked = self._found_room = self._ended = self._late = 0

    def fit(
        self,
        limited: bool,
        planned: int,
        planned_hz: float,
        servers: int,
        reserved: int = 0,
        blocked_s: float = 0.0,
        always_ask: bool = False,
    ) -> None:
        """Batches are as large as `planned`; `limited`: or smaller, so that calls with permits are in time, but never
        so small that `servers` could not run the planned rates any more. `reserved`: places of a server whose calls are
        answered one by one that are left to periodic calls. `blocked_s`: what a call may first wait for a batch of
        another model on its GPU. `always_ask`: a call that nobody expects may have to wait for one, so robots ask
        however often they find an idle server."""
        self._reserved, self._blocked_s, self._always_ask = reserved, blocked_s, always_ask
        self._limited, self._planned = limited and self._profile.known, planned
        service_s = self._profile.service_s
        sizes = range(1, planned + 1)
        self._smallest = next((n for n in sizes if servers * n >= planned_hz * service_s(n)), planned)
        self._sizes.clear()

    def size(self, slo_s: float) -> int:
        """The largest batch that a call with this SLO may be in."""
        if not self._limited:
            return self._planned
        known = self._sizes.get(slo_s)
        if known is None:
            wait_s = self.line.wait_s + self._blocked_s
            found = largest(self._planned, self._profile.service_s, wait_s, slo_s, self._spare)
            known = self._sizes[slo_s] = max(self._smallest, found)
        return known

    def rank_s(self, call: Call, permit: Permit | None) -> float:
        """Where a call stands. It has waited since its robot asked for it: otherwise periodic calls, which never ask,
        would go first. Those that were asked for one batch stay together, whatever their SLOs are."""
        if self._limited and self.pace <= 1:
            return call.arrived_s + LOOK_EVERY_S if permit is None else permit.rank_s
        return call.rank_s if permit is None else call.rank_s - permit.waited_s

    def group(self, calls: list[Call]) -> list[Call]:
        """Those of the waiting calls that run together with the first one."""
        if not self._limited:
            return calls
        sizes = [self.size(call.slo_s) for call in calls]
        return [calls[index] for index in together(sizes, self._profile)]

    def _size_left(self, now_s: float, call: Call) -> int:
        """The largest batch that a waiting call may still be in."""
        size = self.size(call.slo_s)
        if not self._limited:
            return size
        while size > 1 and now_s + self._profile.service_s(size) > call.due_s:
            size -= 1
        return size

    def expected(self, now_s: float) -> int:
        """Batches whose calls are on their way."""
        return ceil(sum(1 / limit for limit in self.line.limits(now_s)) - 1e-9)

    def grant(
        self, now_s: float, waiting: Iterable[Call], workers: Sequence[WorkerState]
    ) -> tuple[list[Key], float]:
        """Whom to tell to call now, because one of `workers` is about to be free; and when to look again.

        `waiting`: the calls that are here.
        """
        line = self.line
        if not line.asked:
            return [], inf
        if not workers:  # their calls wait here for a worker, within their deadlines
            return line.give(now_s, inf, lambda _: 1), inf
        # Counted in batches, and in calls where each is answered by itself.
        one_by_one = any(worker.one_by_one for worker in workers)
        size: Callable[[float], int] = (lambda _: 1) if one_by_one else self.size
        # Periodic calls need no permit: they wait for their turn beside those that have one.
        ahead = [call for call in waiting if call.component in GOAL_COUPLED]
        calls = line.given(now_s) + len(ahead)
        limits = line.limits(now_s)
        limits += [1 if one_by_one else self._size_left(now_s, call) for call in ahead]
        reserved = sum(1 / limit for limit in limits)
        now, soon, next_s = 0, 0, inf
        for worker in workers:
            free_s = worker.free_at_s(now_s)
            if worker.one_by_one:
                running = (each.calls[0].component for each in worker.batches.values())
                goals = sum(component in GOAL_COUPLED for component in running)
                soon += max(0, worker.at_once - self._reserved - goals)
            elif free_s is None:
                continue
            elif free_s < now_s + line.slowest_s:
                now += 1
            elif free_s <= now_s + line.lead_s:
                soon += 1
            else:
                next_s = min(next_s, free_s - line.lead_s)
        # A worker that is free before a call could come takes what is there by then: only one without any waits for it.
        batches = max(0, now - calls) + max(0.0, soon - max(0.0, reserved - now))
        runs = (lambda count: count) if one_by_one else self._profile.best_count
        # Those that may be in larger batches than the others run with them, too.
        begun = min(limits, default=1)
        left = ceil(reserved - 1e-9) * begun - calls
        given = line.give(now_s, batches, size, begun, left, runs)
        again_s = min(max(next_s, now_s + LOOK_EVERY_S), line.next_free_s(now_s)) if line.asked else inf
        return given, again_s


@dataclass(slots=True)
class RateMeter:
    """A token bucket for each goal-coupled component of one robot (GCRA).

    A robot over its rate is served with what is left, so it costs nobody else a deadline.
    """

    _turns_s: dict[str, float] = field(
        default_factory=dict
    )  # component -> when its next call is due at its rate

    def permitted(
        self, now_s: float, component: str, rates_hz: Mapping[str, float], pace: float = 1.0
    ) -> None:
        """A call has come with a permit: its next turn is one period later."""
        if rates_hz.get(component, 0.0) > 0:
            self._turns_s[component] = now_s + 1 / (rates_hz[component] * pace)

    def over(
        self, now_s: float, component: str, rates_hz: Mapping[str, float], pace: float, catch_up: float
    ) -> bool:
        """Whether a call that comes now is over the rate, which is `pace` times that of the schedule.

        A call over the rate spends nothing: with twice as many calls as allowed, every other one is within it.
        """
        rate_hz = rates_hz.get(component, 0.0) * pace if component in GOAL_COUPLED else 0.0
        if rate_hz <= 0:
            return False
        period_s = 1 / rate_hz
        early_s = (catch_up + SPARE_PERIODS) * period_s + TOLERANCE_S
        # However it came to that, nobody's turn is further ahead than one call that was just in time puts it.
        turn_s = min(self._turns_s.get(component, now_s), now_s + early_s + period_s)
        if now_s < turn_s - early_s:
            return True
        self._turns_s[component] = max(turn_s, now_s) + period_s
        return False


class DecodeBudget:
    """What robots owe for the decoding of their pictures, by name: a leaky bucket each.

    Decoding happens before a batch begins, in a worker that serves other robots too. What a picture may cost is bounded
    (`rosa_contract/wire`), but an encoder can choose the dear end of that, so each robot pays for its own: CPU time as
    the worker measured it, whatever else the machine does.
    """

    def __init__(self) -> None:
        self._debts: dict[str, tuple[float, float]] = {}  # robot -> (CPU seconds, when that was so)

    def charge(self, now_s: float, robot_id: str, seconds: float) -> bool:
        """A worker has decoded for this robot. True when it is over its share now and was not before."""
        before = self._debt_s(now_s, robot_id)
        after = min(MAX_DEBT_S, before + seconds)
        self._debts[robot_id] = after, now_s
        return before <= DECODING_BURST_S < after

    def over(self, now_s: float, robot_id: str) -> bool:
        """Whether this robot's calls have to wait for everybody else's."""
        return bool(self._debts) and self._debt_s(now_s, robot_id) > DECODING_BURST_S

    def sweep(self, now_s: float) -> None:
        """Forget the robots that owe nothing any more."""
        for robot_id in [name for name in self._debts if not self._debt_s(now_s, name)]:
            del self._debts[robot_id]

    def _debt_s(self, now_s: float, robot_id: str) -> float:
        debt_s, since_s = self._debts.get(robot_id, (0.0, now_s))
        return max(0.0, debt_s - DECODING_SHARE * (now_s - since_s))
