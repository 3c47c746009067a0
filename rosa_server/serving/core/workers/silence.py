"""Workers of other machines of which nothing has come for a while, although their link holds. Pure.

A dead machine and one that has no processor time for a moment look alike. So a silent worker is passed over, which
costs it nothing: it keeps its connection, and works again when something of it is heard. And only where others could
run its calls: where nobody can, taking them away would turn a pause of a fifth of a second into a lost call.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from rosa_server.serving.core.workers.pool import WorkerPool
from rosa_server.serving.core.workers.worker_state import WorkerState


def passed_over(
    pool: WorkerPool, silent: Collection[str], covered: Callable[[str, Collection[str]], bool]
) -> list[WorkerState]:
    """The silent workers whose calls others, that are heard, could run.

    `covered`: whether a standby could run the streams of a replica if these replicas were gone.
    """
    found = [worker for name in silent if (worker := pool.get(name)) is not None]
    gone = {worker.replica for worker in found}
    return [
        worker
        for worker in found
        if not worker.apart and (_beside(pool, worker, silent) or covered(worker.replica, gone))
    ]


def _beside(pool: WorkerPool, worker: WorkerState, silent: Collection[str]) -> bool:
    return any(other.worker_id not in silent for other in pool.of(worker.queue))
