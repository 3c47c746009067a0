"""The gateway's record of one queue, of a replica or of a pool of them: what waits, how it is batched, when to look."""

from __future__ import annotations

import heapq
import math
from functools import partial

from rosa_server.plan.placement import Replica
from rosa_server.serving.core.queueing.batcher import Batcher, Run, without_tightest
from rosa_server.serving.core.queueing.ledger import Call
from rosa_server.serving.core.queueing.queue import RequestQueue
from rosa_server.serving.core.queueing.ranking import Ranking
from rosa_server.serving.core.queueing.tiers import Edge, overflow
from rosa_server.serving.core.rates.control import RateControl
from rosa_server.serving.core.rates.permits import Key
from rosa_server.serving.core.workers.pool import WorkerPool
from rosa_server.serving.core.workers.worker_state import Batch, WorkerState
from rosa_server.timing.batch_profile import BatchProfile
from rosa_server.timing.margins import RETURN_MARGIN_S
from rosa_server.timing.turns import Turn


class Agenda:
    """Which replicas are due, without looking at all of them: a server may have hundreds."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, ReplicaState]] = []  # also times that no longer hold
        self._count = 0

    def number(self) -> int:
        """A number for one more replica; replicas that are due together come in this order."""
        self._count += 1
        return self._count

    def put(self, due_s: float, state: ReplicaState) -> None:
        """A replica has another time at which it is due."""
        if due_s < math.inf:
            heapq.heappush(self._heap, (due_s, state.number, state))

    def due(self, now_s: float) -> list[ReplicaState]:
        """Take out the replicas that are due now."""
        if not self._heap or self._heap[0][0] > now_s:
            return []
        found: dict[int, ReplicaState] = {}
        while self._heap and self._heap[0][0] <= now_s:
            due_s, number, state = heapq.heappop(self._heap)
            if due_s == state.due_s:
                found[number] = state
        return [found[number] for number in sorted(found)]

    def next_s(self) -> float:
        """When the next replica is due; infinite when none is."""
        while self._heap and self._heap[0][0] != self._heap[0][2].due_s:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else math.inf


class ReplicaState:
    """Queue and batcher of one replica, or of all replicas of one pool. Their workers are in the `WorkerPool`."""

    def __init__(
        self,
        replica: Replica,
        queue_limit: int,
        profile: BatchProfile,
        agenda: Agenda,
        ranking: Ranking | None = None,
    ) -> None:
        self.name = replica.queue
        self.number = agenda.number()
        self.queue = RequestQueue(queue_limit, ranking)
        self.batcher = Batcher(1, profile)
        self.cloud_profile = BatchProfile({})  # of the workers that are a link away
        self.callers = 0  # streams that may send it calls
        self.rates = RateControl(profile)
        self._plan = replica
        self._spread = False
        self._planned_batch, self._planned_hz = 1, 0.0
        # A server waits so long for calls on their way; infinite: none does.
        self._waits_until_s = math.inf
        self._agenda, self._due_s = agenda, math.inf

    @property
    def due_s(self) -> float:
        """When to feed it."""
        return self._due_s

    @due_s.setter
    def due_s(self, due_s: float) -> None:
        if due_s != self._due_s:
            self._due_s = due_s
            self._agenda.put(due_s, self)

    def arrived(self, now_s: float) -> None:
        """A robot's call has arrived; the gap between arrivals tells whether waiting for the next one pays."""
        self.batcher.arrived(now_s)

    def batch_as(self, plan: Replica, pool: WorkerPool) -> None:
        """Batch as planned for `plan`: another replica, while this one stands in for it."""
        workers = pool.edge(self.name) or pool.of(self.name)
        most = [1 if worker.at_once > 1 else worker.max_batch for worker in workers]
        planned = [plan.batch] if plan.batch is not None else []
        self._planned_batch = min([*most, *planned]) if most else 1
        self._plan = plan
        self._fit_batch(pool)
        self.batcher.deadline_aware, self.batcher.waits = plan.deadline_aware, plan.waits
        self._spread = bool(plan.pool)

    def window(self, now_s: float, planned_hz: float, pool: WorkerPool) -> None:
        """Once a second. `planned_hz`: calls per second of the robots that are here, at their planned rates."""
        self.rates.window(now_s)
        self._planned_hz = planned_hz
        self._fit_batch(pool)

    def _fit_batch(self, pool: WorkerPool) -> None:
        limited = self._plan.permits and self._plan.deadline_aware and bool(self._plan.service_ms)
        servers, reserved = len(pool.of(self.name)), self._plan.reserved
        blocked_s = self._plan.blocked_ms / 1000
        self.rates.fit(limited, self._planned_batch, self._planned_hz, servers, reserved, blocked_s)
        self.batcher.max_batch = self._planned_batch

    def turn(self, now_s: float, pool: WorkerPool) -> Turn | None:
        """The batch that it would run now on a GPU that it shares; none, when nothing waits or no worker is there."""
        if not self.queue or not pool.of(self.name):
            return None
        self.queue.rank_at(now_s)
        waiting = self._worth_running(now_s, 0)
        size = min(self.batcher.max_batch, self.rates.size(waiting[0].slo_s))
        calls = self.rates.group(waiting)[:size]
        runs_s = self.batcher.profile.service_s(len(calls))
        due_s = min(call.due_s for call in calls) - RETURN_MARGIN_S
        return Turn(min(call.since_s for call in calls), due_s, runs_s)

    def rest(self) -> None:
        """It is another model's turn on the GPU: look again when that has run, or a call expires."""
        self.due_s = self.queue.next_expiry_s if self.queue else math.inf

    def feed(self, now_s: float, pool: WorkerPool) -> list[tuple[WorkerState, Batch]]:
        """Give waiting calls to workers with credit. Remove expired calls first."""
        given = []
        again_s = math.inf
        while self.queue:
            worker, free_s = pool.soonest(self.name, now_s)
            if worker is None or free_s is None:
                break
            if free_s > now_s:
                again_s = free_s
                break
            self.queue.rank_at(now_s)
            waiting = self._worth_running(now_s, len(worker.batches) if worker.at_once > 1 else 0)
            size, waits = self.batcher.max_batch, len(waiting)
            if worker.at_once == 1:
                size = min(size, self.rates.size(waiting[0].slo_s))
                waiting = self.rates.group(waiting)
            on_their_way_s = self._on_their_way_s(now_s, worker, waiting, size)
            if on_their_way_s > now_s:
                again_s = on_their_way_s
                break
            self._waits_until_s = math.inf
            deadlines_s = [call.due_s for call in waiting]
            more_may_come = self.callers > len(self.queue) + pool.held(self.name)
            decision = self.batcher.decide(now_s, deadlines_s, more_may_come)
            if not isinstance(decision, Run):
                again_s = decision.until_s
                break
            kept = without_tightest(deadlines_s, decision.first)
            count = min(decision.count, self._share(now_s, waits, pool))
            calls = self.queue.take([waiting[index] for index in kept[:count]])
            worker = pool.gathered(worker, calls, now_s)
            given.append((worker, pool.give(worker, calls, now_s, self._service_s(calls))))
        away, cloud_s = self._overflow(now_s, pool)
        given += away
        again_s = min(again_s, cloud_s)
        self.due_s = min(again_s, self.queue.next_expiry_s) if self.queue else math.inf
        return given

    def _on_their_way_s(self, now_s: float, worker: WorkerState, waiting: list[Call], size: int) -> float:
        """How long a server that could run what waits leaves room for calls that were asked for and are on their way:
        who misses this batch waits for a whole one. Never longer than a robot takes, nor so long that a call is late.
        """
        if worker.at_once > 1 or len(waiting) >= size or self._waits_until_s <= now_s:
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

    def profile_of(self, worker: WorkerState) -> BatchProfile:
        """The times of a worker's batches."""
        return self.cloud_profile if worker.link_s else self.batcher.profile

    def _overflow(self, now_s: float, pool: WorkerPool) -> tuple[list[tuple[WorkerState, Batch]], float]:
        """Give the cloud what the edge would begin with too late. Also returns when to ask again."""
        given: list[tuple[WorkerState, Batch]] = []
        while self.queue:
            worker, free_s = pool.soonest(self.name, now_s, cloud=True)
            if worker is None or free_s is None:
                break
            if free_s > now_s:
                return given, free_s
            self.queue.rank_at(now_s)
            waiting = self.queue.in_order()
            profile, edge = self.cloud_profile, self._edge(now_s, pool)
            budgets_s = [call.deadline_s - now_s for call in waiting]
            gone = overflow(edge, budgets_s, worker.max_batch, partial(self._cloud_latency_s, worker.link_s))
            if not gone:
                break
            calls = self.queue.take([waiting[position] for position in gone])
            service_s = profile.service_s(len(calls)) if profile.known else None
            given.append((worker, pool.give(worker, calls, now_s, service_s)))
        return given, math.inf

    def _cloud_latency_s(self, link_s: float, size: int) -> float:
        return 2 * link_s + self.cloud_profile.service_s(size)

    def _edge(self, now_s: float, pool: WorkerPool) -> Edge:
        """How soon the edge's workers run what waits; never, when there is none."""
        workers, size = pool.edge(self.name), self.batcher.max_batch
        ends_s = [max((b.expected_end_s for b in w.batches.values()), default=now_s) for w in workers]
        free_in_s = min(ends_s, default=math.inf) - now_s
        places = sum(worker.at_once if worker.at_once > 1 else size for worker in workers)
        return Edge(free_in_s, self.batcher.profile.service_s(size), places)

    def permit(self, now_s: float, pool: WorkerPool) -> list[Key]:
        """Whom to tell to call now; call `feed` first."""
        found, again_s = self.rates.grant(now_s, self.queue, pool.edge(self.name))
        self.due_s = min(self.due_s, again_s)
        return found

    def asked(self, now_s: float, pool: WorkerPool) -> None:
        """A robot is ready to call, or calls without a permit."""
        together = self._plan.at_once or 0
        places = (together if together > 1 else self.batcher.max_batch) * pool.idle(self.name)
        if together > 1:
            left = [each.at_once - self._plan.reserved - len(each.batches) for each in pool.edge(self.name)]
            places = sum(max(0, each) for each in left)
        if any(worker.lane is not None and worker.lane.busy for worker in pool.edge(self.name)):
            places = 0
        self.rates.asked(now_s, places > self.rates.line.given(now_s) + len(self.queue))

    def _share(self, now_s: float, waiting: int, pool: WorkerPool) -> int:
        """The most that one worker of a pool takes of what waits: while others are idle, and no other calls are on
        their way to them, no more than its part, as smaller batches at the same time end sooner than a large one."""
        idle = pool.idle(self.name) - self.rates.expected(now_s) if self._spread else 0
        return -(-waiting // idle) if idle > 1 else waiting

    def _worth_running(self, now_s: float, beside: int) -> list[Call]:
        """The waiting calls, first to run first, without those that will be late even if they run now, alone or beside
        the `beside` calls that the worker answers one by one.

        Otherwise, with the earliest deadline first, each batch would go to calls that are just too late under overload,
        and nothing would be in time. Late calls run only when no other call waits, as the estimate may be wrong.
        """
        order = self.queue.in_order()
        earliest_s = self.batcher.alone_ends_s(now_s, beside)
        in_time = [call for call in order if earliest_s <= call.due_s]
        return in_time or order

    def _service_s(self, calls: list[Call]) -> float | None:
        profile = self.batcher.profile
        return profile.service_s(len(calls)) if profile.known else None
