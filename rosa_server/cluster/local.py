"""Workers as processes of this machine: started, watched, restarted with backoff, and never left behind."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from rosa_contract.config import Factory
from rosa_contract.ending import ending
from rosa_server.cluster.gpus import assign, visible_gpus
from rosa_server.cluster.restart import Backoff
from rosa_server.models.registry import with_engine
from rosa_server.serving import log
from rosa_server.serving.core.placement import Placement
from rosa_server.serving.shared_memory import ShmWriter
from rosa_server.serving.worker_spec import MISCONFIGURED, WorkerSpec


@dataclass
class Supervised:
    """One worker to keep running, and its present process."""

    spec: WorkerSpec
    backoff: Backoff = field(default_factory=Backoff)
    process: subprocess.Popen[bytes] | None = None
    worker_id: str = ""
    life: int = 0
    started_s: float = 0.0
    start_at_s: float = 0.0
    killed_for: str = ""
    shm: ShmWriter | None = None


def worker_specs(factory: Factory, placement: Placement, endpoint: str) -> list[WorkerSpec]:
    """One spec per worker of every replica, named after the replica. All models have an entry in `models`."""
    specs = []
    gpus = assign(factory, placement, visible_gpus())
    for replica in placement.replicas.values():
        model = factory.models[replica.model]
        for index in range(replica.workers):
            name = f"{replica.id}/{index}"
            options = (model.cloud.options or model.options) if replica.link_ms else model.options
            gpu = gpus.get(replica.server, "")
            specs.append(
                WorkerSpec(
                    name,
                    replica.model,
                    model.backend,
                    endpoint,
                    model.max_batch,
                    with_engine(options, replica.engine),
                    gpu=gpu,
                    far=replica.link_ms > 0,
                )
            )
    return specs


class LocalCluster:
    """The workers of this machine. Every start gives a worker a new id: batches of earlier lives cannot be confused."""

    def __init__(self, specs: Sequence[WorkerSpec]) -> None:
        self._workers = [Supervised(spec) for spec in specs]
        self._stopping = False
        self._retired: list[ShmWriter] = []
        # Why a worker cannot work as configured: a server that has not served yet had better say so and end. In its
        # first life a restart would change nothing; later it may, as what is missing may have been there once.
        self.misconfigured = ""

    def poll(self, now_s: float) -> list[tuple[str, str]]:
        """Notice ended workers and start those that are due.

        Returns (worker id, why) of the ended ones and of those that could not be started. Raises no
        `OSError`: a worker that cannot be started now is tried again later, like one that ended.
        """
        lost = []
        while self._retired:  # one poll later: the gateway has stopped polling them
            self._retired.pop().close()
        for worker in self._workers:
            if worker.process is not None and worker.process.poll() is not None:
                why = worker.killed_for or _why(worker.process.returncode)
                lost.append((worker.worker_id, why))
                misconfigured = worker.process.returncode == MISCONFIGURED
                worker.process, worker.killed_for = None, ""
                if worker.shm is not None:
                    self._retired.append(worker.shm)
                    worker.shm = None
                worker.start_at_s = worker.backoff.ended(worker.started_s, now_s)
                if misconfigured:
                    if worker.life == 1:
                        worker.start_at_s = math.inf
                    words = f"{worker.worker_id} {why}; its last words in the log say why"
                    self.misconfigured = f"models.{worker.spec.model}: {words}"
            if worker.process is None and not self._stopping and now_s >= worker.start_at_s:
                why = self._start(worker, now_s)
                if why:
                    lost.append((worker.worker_id, why))
        return lost

    def kill(self, worker_id: str, reason: str) -> None:
        """End a worker at once; `poll` reports it and starts another."""
        for worker in self._workers:
            if worker.worker_id == worker_id and worker.process is not None:
                worker.killed_for = reason
                worker.process.kill()

    def shm(self, worker_id: str) -> ShmWriter | None:
        """The memory shared with a living worker."""
        return next((worker.shm for worker in self._workers if worker.worker_id == worker_id), None)

    def stop(self, grace_s: float) -> None:
        """End every worker: after SIGTERM they have `grace_s` to finish; then they are killed."""
        self._stopping = True
        running = [worker.process for worker in self._workers if worker.process is not None]
        deadline_s = time.monotonic() + grace_s
        for process in running:
            process.send_signal(signal.SIGTERM)
        for process in running:
            try:
                process.wait(max(0.0, deadline_s - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
        for process in running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(5)

    def _start(self, worker: Supervised, now_s: float) -> str:
        """Start a worker. Returns why that failed; empty when it runs."""
        worker.life += 1
        worker.worker_id = f"{worker.spec.worker_id}.{worker.life}"
        shm: ShmWriter | None = None
        try:
            shm = ShmWriter() if hasattr(os, "memfd_create") and not worker.spec.far else None
            fds = shm.fds if shm is not None else ()
            spec = replace(worker.spec, worker_id=worker.worker_id, parent_pid=os.getpid(), shm_fds=fds)
            environment = {**os.environ, "CUDA_VISIBLE_DEVICES": spec.gpu} if spec.gpu else None
            worker.process = subprocess.Popen(
                spec.command(), stdin=subprocess.DEVNULL, pass_fds=fds, env=environment
            )
        except OSError as error:  # no descriptor, no process, no memory, no program
            if shm is not None:
                shm.close()
            worker.start_at_s = worker.backoff.ended(now_s, now_s)
            return f"could not be started: {error}"
        if shm is not None:
            shm.theirs.close()  # otherwise the end of the worker would never be noticed
        worker.shm, worker.started_s = shm, now_s
        log.event(
            "worker_started",
            worker=worker.worker_id,
            model=spec.model,
            backend=spec.backend,
            pid=worker.process.pid,
        )
        return ""


def _why(status: int) -> str:
    return "cannot work as configured" if status == MISCONFIGURED else ending(status)
