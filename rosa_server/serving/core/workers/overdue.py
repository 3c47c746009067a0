"""Workers that are slow, but alive: their link beats, and a batch takes far longer than batches of its size take.

The time of a batch is that between gateway and worker, so a robot's slow link does not show in it. Where nobody has
time to run the calls again nothing is gained by taking them away: then all are slow, and none of them is.
"""

from __future__ import annotations

from collections.abc import Callable

from rosa_server.serving.core.workers.pool import WorkerPool
from rosa_server.serving.core.workers.worker_state import WorkerState

TIMES = 3.0  # this multiple of what is expected of the batch ...
GRACE_S = 0.25  # ... and this, at the least: a short batch that waits for a busy processor is no sign


def overdue(pool: WorkerPool, covered: Callable[[str], bool], now_s: float) -> list[WorkerState]:
    """The workers that run whole batches, one of which should have ended long ago, while others could run it.

    `covered`: whether a standby could run the streams of a replica.
    """
    return [worker for worker in pool if _late(worker, now_s) and _others(pool, worker, covered)]


def _late(worker: WorkerState, now_s: float) -> bool:
    if worker.at_once > 1 or worker.apart or not worker.batches:
        return False
    oldest = next(iter(worker.batches.values()))
    return now_s - oldest.expected_end_s > max(GRACE_S, TIMES * oldest.service_s)


def _others(pool: WorkerPool, worker: WorkerState, covered: Callable[[str], bool]) -> bool:
    idle = any(other is not worker and not other.batches for other in pool.of(worker.queue))
    return idle or covered(worker.replica)
