"""The gateway's record of one queue, of a replica or of a pool of them: what waits, how it is batched, when to look."""

from __future__ import annotations

import heapq
import math
from functools import partial

from rosa_contract.config import GOAL_COUPLED
from rosa_server.serving.core.batch_profile import BatchProfile
from rosa_server.serving.core.batcher import RETURN_MARGIN_S, Batcher, Run, without_tightest
from rosa_server.serving.core.ledger import Call
from rosa_server.serving.core.pace import Pace
from rosa_server.serving.core.permits import Key, Permits, largest
from rosa_server.serving.core.placement import Replica
from rosa_server.serving.core.pool import WorkerPool
from rosa_server.serving.core.queue import RequestQueue
from rosa_server.serving.core.ranking import Ranking
from rosa_server.serving.core.shrinking import Shrinking
from rosa_server.serving.core.tiers import Edge, overflow
from rosa_server.serving.core.worker_state import Batch, WorkerState

MOST_OFTEN_S = 0.0005  # permits are looked at again because time has passed


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
        self.pace = Pace()
        self.permits = Permits()
        self._spread = False
        self._planned_batch = 1
        self._shrinking = Shrinking()
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
        self._fit_batch(plan)
        self.batcher.deadline_aware, self.batcher.waits = plan.deadline_aware, plan.waits
        self._spread = bool(plan.pool)

    def settle(self, plan: Replica) -> None:
        """Once per window, after its pace: batches that permits make almost as long as the SLO follow what the network
        leaves of it, and get smaller while calls are late all the same."""
        if plan.permits and self.pace.nearly_late is not None:
            self._shrinking.settle(self.pace.nearly_late, self._planned_batch - 1)
        self._fit_batch(plan)

    def _fit_batch(self, plan: Replica) -> None:
        size = self._planned_batch
        if plan.permits and plan.slo_ms and plan.service_ms:
            service_s = plan.times.service_s
            size = largest(size, service_s, self.permits.lead_s, plan.slo_ms / 1000)
        self.batcher.max_batch = max(1, size - (self._shrinking.less if plan.permits else 0))

    def capacity_hz(self, pool: WorkerPool) -> float:
        """Calls per second that its workers run, as far as known; infinite before anything is."""
        hz = 0.0
        for worker in pool.of(self.name):
            size = worker.at_once if worker.at_once > 1 else self.batcher.max_batch
            service_s = self.profile_of(worker).service_s(size)
            hz += size / service_s if service_s > 0 else math.inf
        return hz

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
            on_their_way_s = self._on_their_way_s(now_s, worker, waiting)
            if on_their_way_s > now_s:
                again_s = on_their_way_s
                break
            self._waits_until_s = math.inf
            deadlines_s = [call.deadline_s for call in waiting]
            more_may_come = self.callers > len(self.queue) + pool.held(self.name)
            decision = self.batcher.decide(now_s, deadlines_s, more_may_come)
            if not isinstance(decision, Run):
                again_s = decision.until_s
                break
            kept = without_tightest(deadlines_s, decision.first)
            count = min(decision.count, self._share(len(waiting), pool))
            calls = self.queue.take([waiting[index] for index in kept[:count]])
            worker = pool.gathered(worker, calls, now_s)
            given.append((worker, pool.give(worker, calls, now_s, self._service_s(calls))))
        away, cloud_s = self._overflow(now_s, pool)
        given += away
        again_s = min(again_s, cloud_s)
        self.due_s = min(again_s, self.queue.next_expiry_s) if self.queue else math.inf
        return given

    def _on_their_way_s(self, now_s: float, worker: WorkerState, waiting: list[Call]) -> float:
        """How long a server that could run what waits leaves room for calls that were asked for and are on their way:
        who misses this batch waits for a whole one. Never longer than a robot takes, nor so long that a call is late.
        """
        missing = self.batcher.max_batch - len(waiting)
        if worker.at_once > 1 or missing <= 0 or self._waits_until_s <= now_s:
            return now_s
        next_s = self.permits.next_call_s(now_s)
        if next_s == math.inf:
            return now_s
        if self._waits_until_s == math.inf:
            full_s = self.batcher.profile.service_s(self.batcher.max_batch) + RETURN_MARGIN_S
            latest_s = [call.deadline_s - full_s for call in waiting]
            self._waits_until_s = min([now_s + self.permits.slowest_s, *(s for s in latest_s if s > now_s)])
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
        """Whom to tell to call now, because a server is about to be free; call `feed` first."""
        if not self.permits.asked:
            return []
        workers = pool.edge(self.name)
        if not workers:  # their calls wait here for a worker, within their deadlines
            return self.permits.give(now_s, math.inf)
        # Periodic calls need no permit: they wait for their turn beside those that have one.
        reserved = self.permits.given(now_s) + sum(
            call.component in GOAL_COUPLED for call in self.queue.waiting()
        )
        now, soon, next_s = 0, 0, math.inf
        for worker in workers:
            free_s = worker.free_at_s(now_s)
            if worker.at_once > 1:
                running = (batch.calls[0].component for batch in worker.batches.values())
                soon += worker.at_once - sum(component in GOAL_COUPLED for component in running)
            elif free_s is None:
                continue
            elif free_s < now_s + self.permits.slowest_s:
                now += 1
            elif free_s <= now_s + self.permits.lead_s:
                soon += self.batcher.max_batch
            else:
                next_s = min(next_s, free_s - self.permits.lead_s)
        # A worker that is free before a call could come takes what is there by then: only one without any waits for it.
        most = max(0, now - reserved) * self.batcher.max_batch
        most += max(0, soon - max(0, reserved - now * self.batcher.max_batch))
        found = self.permits.give(now_s, most)
        if self.permits.asked:
            self.due_s = min(self.due_s, max(next_s, now_s + MOST_OFTEN_S), self.permits.next_free_s(now_s))
        return found

    def _share(self, waiting: int, pool: WorkerPool) -> int:
        """The most that one worker of a pool takes of what waits: while others are idle, no more than its part, as
        smaller batches at the same time end sooner than a large one."""
        idle = pool.idle(self.name) if self._spread else 0
        return -(-waiting // idle) if idle > 1 else waiting

    def _worth_running(self, now_s: float, beside: int) -> list[Call]:
        """The waiting calls, first to run first, without those that will be late even if they run now, alone or beside
        the `beside` calls that the worker answers one by one.

        Otherwise, with the earliest deadline first, each batch would go to calls that are just too late under overload,
        and nothing would be in time. Late calls run only when no other call waits, as the estimate may be wrong.
        """
        order = self.queue.in_order()
        earliest_s = self.batcher.alone_ends_s(now_s, beside)
        in_time = [call for call in order if earliest_s <= call.deadline_s]
        return in_time or order

    def _service_s(self, calls: list[Call]) -> float | None:
        profile = self.batcher.profile
        return profile.service_s(len(calls)) if profile.known else None
