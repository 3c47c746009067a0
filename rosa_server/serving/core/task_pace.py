"""How much faster than planned the robots of each task may act: as the fullest queue that they call allows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from rosa_contract.config import GOAL_COUPLED
from rosa_server.serving.core.pool import WorkerPool
from rosa_server.serving.core.replica import ReplicaState
from rosa_server.serving.core.router import Router
from rosa_server.serving.core.session import Session

SETTLE_EVERY_S = 1.0  # one window, see `Pace`


class TaskPaces:
    """One pace for each task. `Pace` decides for a queue; a task is as fast as the slowest of its queues."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self._paces: dict[str, float] = {}  # task -> how many times its planned rates its robots may call
        self._paces_before = self._paces
        self._settle_s = 0.0

    def of(self, task: str) -> float:
        """What a robot of this task is told with an answer; 0: nothing."""
        return self._paces.get(task, 0.0)

    def tolerated(self, task: str) -> float:
        """What a robot of this task is held to: it hears of its pace with an answer, so that of the window before
        still counts."""
        return max(1.0, self._paces.get(task, 0.0), self._paces_before.get(task, 0.0))

    def tick(
        self,
        now_s: float,
        sessions: Iterable[Session],
        queues: Mapping[str, ReplicaState],
        pool: WorkerPool,
    ) -> float:
        """Settle the pace of every queue, and with it of every task, once per window; only with adaptive rates.

        Returns when this window ends.
        """
        if now_s >= self._settle_s:
            self._settle_s = now_s + SETTLE_EVERY_S
            if self._router.placement.adaptive:
                self._settle(sessions, queues, pool)
        return self._settle_s

    def _settle(
        self, sessions: Iterable[Session], queues: Mapping[str, ReplicaState], pool: WorkerPool
    ) -> None:
        placement, failover = self._router.placement, self._router.failover
        planned_hz: dict[str, float] = defaultdict(float)
        fixed_hz: dict[str, float] = defaultdict(float)
        tasks: dict[str, set[str]] = {}  # queue -> tasks with goal-coupled calls in it
        for session in sessions:
            for component, rate_hz in self._router.rates_of(session.task).items():
                queue = failover.queue_of(session.routes[component])
                if component in GOAL_COUPLED:
                    planned_hz[queue] += rate_hz
                    tasks.setdefault(queue, set()).add(session.task)
                else:
                    fixed_hz[queue] += rate_hz
        allowed: dict[str, float] = {}
        for queue, state in queues.items():
            planned = len(failover.pool(queue)) or 1
            capacity_hz, there = state.capacity_hz(pool), len(pool.of(queue)) / planned
            pace = state.pace.settle(capacity_hz, planned_hz[queue], there, fixed_hz[queue])
            placed = failover.pool(queue) or (queue,)
            state.settle(placement.replicas[placed[0]])
            for task in tasks.get(queue, ()):
                allowed[task] = min(allowed.get(task, pace), pace)
        self._paces_before, self._paces = self._paces, allowed if placement.rates_hz else {}
