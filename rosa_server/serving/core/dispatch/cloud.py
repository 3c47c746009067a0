"""A lane that overflows to workers a link away, in the cloud (Kairos 3.2.3)."""

from __future__ import annotations

import math
from functools import partial

from rosa_server.plan.placement import Replica
from rosa_server.serving.core.dispatch.lane import Agenda, Given, Lane
from rosa_server.serving.core.queueing.order import Ranking
from rosa_server.serving.core.queueing.tiers import Edge, overflow
from rosa_server.serving.core.workers.pool import WorkerPool
from rosa_server.serving.core.workers.worker_state import WorkerState
from rosa_server.timing.batches import BatchProfile


class CloudLane(Lane):
    """The edge is fed as in any lane; what it would begin with too late goes to the cloud."""

    def __init__(
        self,
        replica: Replica,
        queue_limit: int,
        profile: BatchProfile,
        agenda: Agenda,
        pool: WorkerPool,
        ranking: Ranking | None = None,
    ) -> None:
        super().__init__(replica, queue_limit, profile, agenda, pool, ranking)
        self.cloud_profile = BatchProfile({})  # of the workers that are a link away

    def ran(self, now_s: float, worker: WorkerState, size: int, took_ms: float) -> None:
        """See `Lane`; times in the cloud are learned apart."""
        if worker.link_s:
            self.cloud_profile.learn(size, took_ms)
        else:
            super().ran(now_s, worker, size, took_ms)

    def _give(self, now_s: float) -> tuple[list[Given], float]:
        given, again_s = super()._give(now_s)
        away, cloud_s = self._overflow(now_s)
        return given + away, min(again_s, cloud_s)

    def _overflow(self, now_s: float) -> tuple[list[Given], float]:
        """Give the cloud what the edge would begin with too late. Also returns when to ask again."""
        given: list[Given] = []
        while self.queue:
            worker, free_s = self._pool.soonest(self.name, now_s, cloud=True)
            if worker is None or free_s is None:
                break
            if free_s > now_s:
                return given, free_s
            self.queue.rank_at(now_s)
            waiting = self.queue.in_order()
            profile, edge = self.cloud_profile, self._edge(now_s)
            budgets_s = [call.deadline_s - now_s for call in waiting]
            gone = overflow(edge, budgets_s, worker.max_batch, partial(self._cloud_latency_s, worker.link_s))
            if not gone:
                break
            calls = self.queue.take([waiting[position] for position in gone])
            service_s = profile.service_s(len(calls)) if profile.known else None
            given.append((worker, self._pool.give(worker, calls, now_s, service_s)))
        return given, math.inf

    def _cloud_latency_s(self, link_s: float, size: int) -> float:
        return 2 * link_s + self.cloud_profile.service_s(size)

    def _edge(self, now_s: float) -> Edge:
        """How soon the edge's workers run what waits; never, when there is none."""
        workers, size = self._pool.edge(self.name), self.batcher.max_batch
        ends_s = [max((b.expected_end_s for b in w.batches.values()), default=now_s) for w in workers]
        free_in_s = min(ends_s, default=math.inf) - now_s
        places = sum(worker.at_once if worker.one_by_one else size for worker in workers)
        return Edge(free_in_s, self.batcher.profile.service_s(size), places)
