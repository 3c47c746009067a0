"""A lane: one queue of a replica or of a pool of them, what batches it, and the workers that it feeds.

It owns its state. `step` says what to give and which robots to tell; when the lane is due next stands in the `Agenda`.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from typing import Protocol

from rosa_contract.config.tasks import GOAL_COUPLED
from rosa_server.plan.placement import Replica
from rosa_server.serving.core.queueing.ledger import Call
from rosa_server.serving.core.queueing.order import EarliestDeadline, Rank, Ranking
from rosa_server.serving.core.rates.control import MAX_SPARE, RateControl
from rosa_server.serving.core.rates.permits import MIN_LEAD_S, Key, Permit
from rosa_server.serving.core.workers.pool import WorkerPool
from rosa_server.serving.core.workers.worker_state import Batch, WorkerState
from rosa_server.timing.batches import RETURN_MARGIN_S, SPARE, Batcher, BatchProfile, Run, without_tightest
from rosa_server.timing.turns import Turn

TINY_S = 1e-6

Given = tuple[WorkerState, Batch]


class Agenda:
    """Which lanes are due, without looking at all of them: a server may have hundreds."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Lane]] = []  # also times that no longer hold
        self._count = 0

    def number(self) -> int:
        """A number for one more lane; lanes that are due together come in this order."""
        self._count += 1
        return self._count

    def put(self, due_s: float, lane: Lane) -> None:
        """A lane has another time at which it is due."""
        if due_s < math.inf:
            heapq.heappush(self._heap, (due_s, lane.number, lane))

    def due(self, now_s: float) -> list[Lane]:
        """Take out the lanes that are due now."""
        if not self._heap or self._heap[0][0] > now_s:
            return []
        found: dict[int, Lane] = {}
        while self._heap and self._heap[0][0] <= now_s:
            due_s, number, lane = heapq.heappop(self._heap)
            if due_s == lane.due_s:
                found[number] = lane
        return [found[number] for number in sorted(found)]

    def next_s(self) -> float:
        """When the next lane is due; infinite when none is."""
        while self._heap and self._heap[0][0] != self._heap[0][2].due_s:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else math.inf


class RequestQueue:
    """Waiting calls in the order in which workers take them: at most the newest per (robot, component), and bounded.

    The order is that of `ranking`; none: by deadline. A fresher request takes the place of the waiting one of the same
    robot and component and keeps its rank, so that a robot that sends often is not pushed back by its own later
    deadlines.
    """

    def __init__(self, limit: int, ranking: Ranking | None = None) -> None:
        self.limit = limit
        self.ranking = ranking if ranking is not None else Ranking(EarliestDeadline())
        self._now_s = 0.0  # of the last `rank_at`, or a later arrival
        self._calls: dict[tuple[str, str], Call] = {}
        # Sorted, with their ranks; None after a change, where ranks depend on the time.
        self._order: list[Call] | None = []
        self._ranks: list[Rank] = []
        self._moving: set[int] = set()  # tickets of the waiting calls whose ranks change
        self._next_expiry_s = math.inf  # no waiting call expires before this

    def __len__(self) -> int:
        return len(self._calls)

    def __iter__(self) -> Iterator[Call]:
        return iter(self.in_order())

    def waiting(self) -> Collection[Call]:
        """The waiting calls in no particular order."""
        return self._calls.values()

    def full_for(self, key: tuple[str, str]) -> bool:
        """True when a call with this key would make the queue longer than its limit."""
        return len(self._calls) >= self.limit and key not in self._calls

    def put(self, call: Call) -> Call | None:
        """Queue a call; returns the waiting call that it replaces, if any. Raises `OverflowError` when full."""
        if self.full_for(call.key):
            raise OverflowError(f"the queue holds its limit of {self.limit} requests; check full_for() first")
        replaced = self._calls.get(call.key)
        call.since_s = call.arrived_s
        if replaced is not None:
            call.rank_s = min(call.rank_s, replaced.rank_s)
            call.over_rate &= replaced.over_rate
            call.since_s = replaced.since_s
            self._drop(replaced)
        self._calls[call.key] = call
        self._now_s = max(self._now_s, call.arrived_s)
        self._insert(call)
        self._next_expiry_s = min(self._next_expiry_s, call.deadline_s)
        return replaced

    def __contains__(self, call: Call) -> bool:
        """Whether this very call waits here."""
        return self._calls.get(call.key) is call

    def newer_waits(self, key: tuple[str, str]) -> bool:
        return key in self._calls

    def remove(self, key: tuple[str, str]) -> Call | None:
        call = self._calls.pop(key, None)
        if call is not None:
            self._drop(call)
        return call

    def rank_at(self, now_s: float) -> None:
        """From here on the order is that of this time, where the policy's ranks change while calls wait."""
        self._now_s = now_s
        if self._moving:
            self._order = None

    def in_order(self) -> list[Call]:
        """The waiting calls, first to run first."""
        if len(self._calls) == 1:
            return list(self._calls.values())
        if self._order is None:
            ranked = sorted((self.ranking.rank(self._now_s, call), call.key) for call in self._calls.values())
            self._ranks = [rank for rank, _ in ranked]
            self._order = [self._calls[key] for _, key in ranked]
        return self._order

    def take(self, calls: list[Call]) -> list[Call]:
        """Remove these waiting calls and return them. Call `expire` first: an expired call must not be run."""
        for call in calls:
            del self._calls[call.key]
            self._drop(call)
        return calls

    def _insert(self, call: Call) -> None:
        order = self.ranking.order
        if order.moves and order.moves_while_waiting(call.arrived_s, call):
            self._moving.add(call.ticket)
        if self._moving:
            self._order = None
        elif self._order is not None:
            rank = self.ranking.rank(self._now_s, call)
            place = bisect_left(self._ranks, rank)
            self._ranks.insert(place, rank)
            self._order.insert(place, call)

    def _drop(self, call: Call) -> None:
        """Out of the order. Ranks end with the ticket, so no two are equal."""
        if self._moving:
            self._moving.discard(call.ticket)
            self._order = None
        elif self._order is not None:
            place = bisect_left(self._ranks, self.ranking.rank(self._now_s, call))
            del self._ranks[place], self._order[place]

    def expire(self, now_s: float) -> list[Call]:
        """Remove and return the calls whose deadline has passed."""
        if now_s < self._next_expiry_s:
            return []
        late = [call for call in self._calls.values() if call.deadline_s <= now_s]
        for call in late:
            del self._calls[call.key]
            self._drop(call)
        self._next_expiry_s = min((call.deadline_s for call in self._calls.values()), default=math.inf)
        return late

    @property
    def next_expiry_s(self) -> float:
        """A time before which no waiting call expires; infinite when none waits."""
        return self._next_expiry_s


class GpuTurns(Protocol):
    """The lanes of a GPU that several models share (`shared_gpu.py`)."""

    def next(self, now_s: float) -> tuple[Lane | None, float]:
        """Whose turn it is; and where it is nobody's yet, when to look again."""

    def may_ask_s(self, now_s: float, lane: Lane) -> float:
        """From when on a lane may tell robots to call: now, or infinite until a batch has ended."""


class Lane:
    """Of one replica, or of all replicas of one pool."""

    def __init__(
        self,
        replica: Replica,
        queue_limit: int,
        profile: BatchProfile,
        agenda: Agenda,
        pool: WorkerPool,
        ranking: Ranking | None = None,
    ) -> None:
        """`profile`: times of its batches, as they are learned. `pool`: where its workers are, by its name."""
        self.name = replica.queue
        self.number = agenda.number()
        self.queue = RequestQueue(queue_limit, ranking)
        self.batcher = Batcher(1, profile)
        self.callers = 0  # streams that may send it calls
        self.rates = RateControl(profile)
        self._plan, self._pool = replica, pool
        self._usual = replica.times  # as planned, whatever is learned
        self._spread = False
        self._planned_batch, self._planned_hz = 1, 0.0
        # A server waits so long for calls on their way; infinite: none does.
        self._waits_until_s = math.inf
        self._agenda, self._due_s = agenda, math.inf

    # -- when it is due ------------------------------------------------------------------------------------------------

    @property
    def due_s(self) -> float:
        """When to `step` it."""
        return self._due_s

    def wake(self, now_s: float) -> None:
        """Something has changed: it is due now."""
        self._look_at(now_s)

    def freed(self, now_s: float) -> None:
        """A worker may have room: it is due now, if anybody waits for that."""
        if self.queue or self.rates.line.asked:
            self._look_at(now_s)

    def _look_at(self, due_s: float) -> None:
        if due_s != self._due_s:
            self._due_s = due_s
            self._agenda.put(due_s, self)

    # -- what it hears -------------------------------------------------------------------------------------------------

    def arrived(self, now_s: float) -> None:
        """A robot's call has arrived; the gap between arrivals tells whether waiting for the next one pays."""
        self.batcher.arrived(now_s)

    def put(self, now_s: float, call: Call) -> Call | None:
        """A call waits here from now on. Returns the one that it replaces. Raises beyond the queue's limit."""
        self.wake(now_s)
        return self.queue.put(call)

    def ask(self, now_s: float, key: Key, rate_hz: float, slo_s: float) -> None:
        """A robot waits for a permit."""
        self._asked(now_s)
        self.rates.line.ask(now_s, key, rate_hz, slo_s)
        self.wake(now_s)

    def called(self, now_s: float, call: Call, paced: bool = True) -> Permit | None:
        """The permit that a call has come with, which is used up; the call's rank follows from it. `paced`: robots may
        become faster than planned while those that call find idle servers."""
        permit = self.rates.line.called(now_s, (call.connection, call.component))
        call.network_s = self.rates.line.network_s(now_s, permit)
        left_out_s = call.slo_s - (call.deadline_s - call.arrived_s)
        if left_out_s > TINY_S:  # its robot knows its way, and has taken it off the budget
            min_s = MIN_LEAD_S if permit is None else 0.0  # nothing is known of this call's own way
            call.network_s = max(min_s, call.network_s - left_out_s)
        if permit is None and paced and call.component in GOAL_COUPLED:
            self._asked(now_s)
        call.rank_s = self.rates.rank_s(call, permit)
        return permit

    def warm(self, now_s: float, worker: WorkerState, batch_sizes: Sequence[int]) -> None:
        """A worker is here, with these batch sizes only; empty: with every size."""
        if not worker.link_s:
            self.batcher.profile.has_only(batch_sizes)
        self.wake(now_s)

    def ran(self, now_s: float, worker: WorkerState, size: int, took_ms: float) -> None:
        """A batch has run: its time is learned."""
        profile = self.batcher.profile
        self.rates.ran(now_s, profile.service_s(size), took_ms / 1000)
        profile.learn(size, took_ms)

    def begin_anew(self, replica: Replica) -> None:
        """Its workers run another model from now on, or other times are planned: what was learned holds no more."""
        self._usual, self.batcher.profile = replica.times, replica.times
        self.rates.begin_anew(self.batcher.profile)

    def batch_as(self, plan: Replica) -> None:
        """Batch as planned for `plan`: another replica, while this one stands in for it."""
        workers = self._pool.edge(self.name) or self._pool.of(self.name)
        highest = [worker.largest for worker in workers]
        planned = [plan.batch] if plan.batch is not None else []
        self._planned_batch = min([*highest, *planned]) if highest else 1
        self._plan = plan
        self._fit_batch()
        self.batcher.deadline_aware, self.batcher.waits = plan.deadline_aware, plan.waits
        self._spread = bool(plan.pool)

    def window(self, now_s: float, planned_hz: float) -> None:
        """Once a second. `planned_hz`: calls per second of the robots that are here, at their planned rates."""
        self.rates.window(now_s)
        self._planned_hz = planned_hz
        self._fit_batch()

    def _fit_batch(self) -> None:
        limited = self._plan.permits and self._plan.deadline_aware and bool(self._plan.service_ms)
        servers, reserved = len(self._pool.of(self.name)), self._plan.reserved
        blocked_s = self._plan.blocked_ms / 1000
        always_ask = self._plan.always_asks
        self.rates.fit(
            limited, self._planned_batch, self._planned_hz, servers, reserved, blocked_s, always_ask
        )
        self.batcher.max_batch = self._planned_batch

    # -- what it decides -----------------------------------------------------------------------------------------------

    def turn(self, now_s: float) -> Turn | None:
        """The batch that it would run now on a GPU that it shares; none, when nothing waits or no worker is there."""
        if not self.queue or not self._pool.of(self.name):
            return None
        self.queue.rank_at(now_s)
        waiting = self._worth_running(now_s)
        size = min(self.batcher.max_batch, self.rates.size(waiting[0].slo_s))
        calls = self.rates.group(waiting)[:size]
        runs_s = self.batcher.profile.service_s(len(calls))
        due_s = min(call.due_s for call in calls) - RETURN_MARGIN_S
        return Turn(min(call.since_s for call in calls), due_s, runs_s)

    def coming(self, now_s: float) -> Turn | None:
        """The batch of the calls that robots were told to make and that are not here yet."""
        calls = self.rates.line.on_their_way(now_s)
        if not calls:
            return None
        min_s = min(slo_s for _, slo_s in calls) - self.rates.line.wait_s
        runs_s = self.batcher.profile.service_s(min(len(calls), self.batcher.max_batch))
        return Turn(min(since_s for since_s, _ in calls), now_s + min_s - RETURN_MARGIN_S, runs_s)

    @property
    def asked_runs_s(self) -> float:
        """How long a batch of those that wait for a permit would run, from when they are told."""
        line = self.rates.line
        return line.wait_s + self.batcher.profile.service_s(min(max(1, len(line)), self.batcher.max_batch))

    def step(self, now_s: float, turns: GpuTurns | None = None) -> tuple[list[Given], list[Key]]:
        """What workers are given now, and which robots are told to call. `turns`: of its GPU, where other models share
        it. Where it is the turn of another one, the lane is due again when that has run, or a call expires."""
        whose, again_s = (self, math.inf) if turns is None else turns.next(now_s)
        given = list[Given]()
        if whose is self:
            given, again_s = self._give(now_s)
        due_s = min(again_s, self.queue.next_expiry_s) if self.queue else math.inf
        if not self.rates.line.asked:
            self._look_at(due_s)
            return given, []
        if turns is not None and (again_s := turns.may_ask_s(now_s, self)) > now_s:
            self._look_at(min(due_s, again_s))
            return given, []
        permits, look_s = self.rates.grant(now_s, self.queue.waiting(), self._pool.edge(self.name))
        self._look_at(min(due_s, look_s))
        return given, permits

    def _give(self, now_s: float) -> tuple[list[Given], float]:
        """Give waiting calls to workers with credit, and say when to try again. Expired calls are gone before."""
        given: list[Given] = []
        again_s = math.inf
        while self.queue:
            worker, free_s = self._pool.soonest(self.name, now_s)
            if worker is None or free_s is None:
                break
            if free_s > now_s:
                again_s = free_s
                break
            self.queue.rank_at(now_s)
            waiting = self._worth_running(now_s, worker)
            if not waiting:
                break  # until a call ends there
            size, waits = self.batcher.max_batch, len(waiting)
            if not worker.one_by_one:
                size = min(size, self.rates.size(waiting[0].slo_s))
                waiting = self.rates.group(waiting)
            on_their_way_s = self._on_their_way_s(now_s, worker, waiting, size)
            if on_their_way_s > now_s:
                again_s = on_their_way_s
                break
            self._waits_until_s = math.inf
            deadlines_s = [call.due_s for call in waiting]
            more_may_come = self.callers > len(self.queue) + self._pool.held(self.name)
            decision = self.batcher.decide(now_s, deadlines_s, more_may_come)
            if not isinstance(decision, Run):
                again_s = decision.until_s
                break
            kept = without_tightest(deadlines_s, decision.first)
            count = min(decision.count, self._share(now_s, waits))
            calls = self.queue.take([waiting[index] for index in kept[:count]])
            worker = self._pool.gathered(worker, calls, now_s)
            given.append((worker, self._pool.give(worker, calls, now_s, self._service_s(calls))))
        return given, again_s

    def _on_their_way_s(self, now_s: float, worker: WorkerState, waiting: list[Call], size: int) -> float:
        """How long a server that could run what waits leaves room for calls that were asked for and are on their way:
        what misses this batch waits for a whole one. Never longer than a robot takes, nor so long that a call is late.
        """
        if worker.one_by_one or len(waiting) >= size or self._waits_until_s <= now_s:
            return now_s
        next_s = self.rates.line.next_call_s(now_s)
        if next_s == math.inf:
            return now_s
        if self._waits_until_s == math.inf:
            full_s = self.batcher.profile.service_s(size) + RETURN_MARGIN_S
            latest_s = [call.due_s - full_s for call in waiting]
            self._waits_until_s = min(
                [now_s + self.rates.line.slowest_s, *(s for s in latest_s if s > now_s)]
            )
        return min(next_s, self._waits_until_s)

    def _asked(self, now_s: float) -> None:
        """A robot is ready to call, or calls without a permit."""
        together = self._plan.at_once or 0
        places = (together if together > 1 else self.batcher.max_batch) * self._pool.idle(self.name)
        if together > 1:
            left = [
                each.at_once - self._plan.reserved - len(each.batches) for each in self._pool.edge(self.name)
            ]
            places = sum(max(0, each) for each in left)
        if any(worker.gpu is not None and worker.gpu.busy for worker in self._pool.edge(self.name)):
            places = 0
        self.rates.asked(now_s, places > self.rates.line.given(now_s) + len(self.queue))

    def _share(self, now_s: float, waiting: int) -> int:
        """The most that one worker of a pool takes of what waits: while others are idle, and no other calls are on
        their way to them, no more than its part, as smaller batches at the same time end sooner than a large one."""
        idle = self._pool.idle(self.name) - self.rates.expected(now_s) if self._spread else 0
        return -(-waiting // idle) if idle > 1 else waiting

    def _worth_running(self, now_s: float, worker: WorkerState | None = None) -> list[Call]:
        """The waiting calls, first to run first, without those that will be late even if they run now, alone or beside
        the calls that `worker` answers one by one.

        Otherwise, with the earliest deadline first, each batch would go to calls that are just too late under overload,
        and nothing would be in time. Late calls run only when no other call waits, as the estimate may be wrong; beside
        others of the same kind not even then, since they would make those late, too.
        """
        order = self.queue.in_order()
        beside = worker.beside if worker is not None else 0
        if worker is not None and worker.one_by_one and not self._plan.mixed_ms and self._usual.known:
            earliest_s = now_s + RETURN_MARGIN_S + self._beside_others_s(beside + 1)
            in_time = [call for call in order if earliest_s <= call.due_s]
            return in_time if in_time or beside else order
        earliest_s = self.batcher.alone_ends_s(now_s, beside)
        in_time = [call for call in order if earliest_s <= call.due_s]
        return in_time or order

    def _beside_others_s(self, count: int) -> float:
        """How long one of so many calls that run beside each other takes, with something to spare: the first in line
        are those with the least time left. What was learned is believed up to a point: a wrong time would let nothing
        run that could correct it."""
        return SPARE * min(self.batcher.profile.service_s(count), MAX_SPARE * self._usual.service_s(count))

    def _service_s(self, calls: list[Call]) -> float | None:
        profile = self.batcher.profile
        return profile.service_s(len(calls)) if profile.known else None
