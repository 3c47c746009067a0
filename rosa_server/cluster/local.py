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
from rosa_server.cluster.gpus import assign, visible_gpus
from rosa_server.cluster.restart import Backoff
from rosa_server.serving import log
from rosa_server.serving.core.placement import Placement
from rosa_server.serving.shared_memory import ShmWriter
from rosa_server.serving.worker import MISCONFIGURED, WorkerSpec


@dataclass
class Slot:
    """The place of one worker; its processes come and go."""

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
            options = dict(model.options)
            gpu = gpus.get(replica.server, "")
            specs.append(
                WorkerSpec(name, replica.model, model.backend, endpoint, model.max_batch, options, gpu=gpu)
            )
    return specs


class LocalCluster:
    """Every life of a worker has an id of its own, so that what an earlier life was given is never mixed up."""

    def __init__(self, specs: Sequence[WorkerSpec]) -> None:
        self._slots = [Slot(spec) for spec in specs]
        self._stopping = False
        self._retired: list[ShmWriter] = []
        self.misconfigured = ""  # why a worker could not even begin; to start it again would change nothing

    def poll(self, now_s: float) -> list[tuple[str, str]]:
        """Notice ended workers and start those that are due.

        Returns (worker id, why) of the ended ones and of those that could not be started. Raises nothing of the
        operating system's: a worker that cannot start now is tried again later, as one that ended.
        """
        lost = []
        while self._retired:  # a round later, when nobody polls them any more
            self._retired.pop().close()
        for slot in self._slots:
            if slot.process is not None and slot.process.poll() is not None:
                why = slot.killed_for or _why(slot.process.returncode)
                lost.append((slot.worker_id, why))
                hopeless = slot.process.returncode == MISCONFIGURED and slot.life == 1
                slot.process, slot.killed_for = None, ""
                if slot.shm is not None:
                    self._retired.append(slot.shm)
                    slot.shm = None
                slot.start_at_s = slot.backoff.ended(slot.started_s, now_s)
                if hopeless:
                    slot.start_at_s = math.inf
                    self.misconfigured = (
                        f"models.{slot.spec.model}: {slot.worker_id} {why}; its last words say why"
                    )
            if slot.process is None and not self._stopping and now_s >= slot.start_at_s:
                why = self._start(slot, now_s)
                if why:
                    lost.append((slot.worker_id, why))
        return lost

    def kill(self, worker_id: str, reason: str) -> None:
        """End a worker at once; `poll` reports it and starts another."""
        for slot in self._slots:
            if slot.worker_id == worker_id and slot.process is not None:
                slot.killed_for = reason
                slot.process.kill()

    def shm(self, worker_id: str) -> ShmWriter | None:
        """The memory shared with a living worker."""
        return next((slot.shm for slot in self._slots if slot.worker_id == worker_id), None)

    def stop(self, grace_s: float) -> None:
        """End every worker: those told to drain get `grace_s`, the others and the slow ones are ended by signal."""
        self._stopping = True
        running = [slot.process for slot in self._slots if slot.process is not None]
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

    def _start(self, slot: Slot, now_s: float) -> str:
        """Start the worker of a slot. Returns why that failed, empty when it runs."""
        slot.life += 1
        slot.worker_id = f"{slot.spec.worker_id}.{slot.life}"
        shm: ShmWriter | None = None
        try:
            shm = ShmWriter() if hasattr(os, "memfd_create") else None
            fds = shm.fds if shm is not None else ()
            spec = replace(slot.spec, worker_id=slot.worker_id, parent_pid=os.getpid(), shm_fds=fds)
            environment = {**os.environ, "CUDA_VISIBLE_DEVICES": spec.gpu} if spec.gpu else None
            slot.process = subprocess.Popen(
                spec.command(), stdin=subprocess.DEVNULL, pass_fds=fds, env=environment
            )
        except OSError as error:  # no descriptor, no process, no memory, no program
            if shm is not None:
                shm.close()
            slot.start_at_s = slot.backoff.ended(now_s, now_s)
            return f"could not be started: {error}"
        if shm is not None:
            shm.theirs.close()  # or its end would never be seen
        slot.shm, slot.started_s = shm, now_s
        log.event(
            "worker_started",
            worker=slot.worker_id,
            model=spec.model,
            backend=spec.backend,
            pid=slot.process.pid,
        )
        return ""


def _why(code: int) -> str:
    if code < 0:
        return f"ended by {signal.Signals(-code).name}"
    return "cannot work as configured" if code == MISCONFIGURED else f"ended with exit code {code}"
