"""Workers as processes of this machine: started, watched, restarted with backoff, and never left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rosa_contract.config.factory import Factory
from rosa_contract.config.models import Model
from rosa_server.cluster.gpus import GpuError, assign, visible_gpus
from rosa_server.cluster.groups import Reaper, end_group
from rosa_server.cluster.output import Output
from rosa_server.cluster.restart import Lives, Numbers, Roster
from rosa_server.models.adapters.resolving import resolve
from rosa_server.models.registry import with_engine
from rosa_server.plan.peering import MAX_ROOM
from rosa_server.plan.placement import Placement, replica_name
from rosa_server.serving.base import log
from rosa_server.serving.base.release import release
from rosa_server.serving.base.shared_memory import ShmWriter
from rosa_server.serving.base.worker_keys import WorkerKeys
from rosa_server.serving.base.worker_spec import WorkerSpec
from rosa_server.serving.edge.cluster import ClusterError

REPORT_START_S = (
    60.0  # a worker that is not ready by then is reported, and again each time it has taken twice as long
)


@dataclass(eq=False)
class Supervised(Lives):
    """One worker to keep running, and its present process."""

    process: subprocess.Popen[bytes] | None = None
    started_s: float = 0.0
    report_s: float = 0.0  # when to say that it still is not ready
    shm: ShmWriter | None = None
    output: Output | None = None
    after: Sequence[Supervised] = ()  # whose GPU it takes over: it starts when they have ended

    def forget_process(self) -> None:
        self.process = self.shm = self.output = None
        self.worker_id = ""


def placed(model: Model) -> dict[str, Any]:
    """What a `WorkerSpec` says of a model's adapter and Python."""
    adapter = resolve(model.adapter).to_data() if model.adapter else {}
    return {"adapter": adapter, "python": model.python, "release": release() if model.python else ""}


def make(factory: Factory, placement: Placement) -> LocalCluster:
    return LocalCluster(worker_specs(factory, placement), factory=factory)


def worker_specs(
    factory: Factory, placement: Placement, endpoint: str = "", local: bool = True
) -> list[WorkerSpec]:
    """One spec per worker of every replica, named after the replica. All models have an entry in `models`.

    `endpoint`: where its gateway listens, where that is known already. `local`: they get the GPUs of this machine.
    """
    specs = []
    gpus = assign(factory, placement, visible_gpus()) if local else {}
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
                    dict(model.sha256),
                    **placed(model),
                    gpu=gpu,
                    far=replica.link_ms > 0,
                    epoch=placement.epoch,
                )
            )
    return specs


class LocalCluster:
    """The workers of this machine. Every start gives a worker a new id: batches of earlier lives cannot be confused."""

    def __init__(
        self, specs: Sequence[WorkerSpec], workers_bind: str = "", factory: Factory | None = None
    ) -> None:
        """`workers_bind`: TCP, with a key for each life of each worker; empty: a socket file and shared memory.
        `factory`: describes the models of workers that are added later."""
        self._factory = factory
        self._workers = Roster(Supervised(spec) for spec in specs)
        self.workers_bind = workers_bind
        self._keys: WorkerKeys | None = None
        self._stopping = False
        # GPUs; asking takes a process of its own, and seconds where a driver is busy.
        self._visible: list[str] = []
        self._endpoint = ""
        self._lives: dict[str, int] = {}  # of workers that were dropped, by name
        self._retired: list[ShmWriter] = []
        self._never_ran: list[
            tuple[str, str]
        ] = []  # heirs that were killed before they were started, and why
        self._reaper = Reaper()
        # Why a worker cannot work as configured: a server that has not served yet had better say so and end. In its
        # first life a restart would change nothing; later it may, as what is missing may have been there once.
        self.misconfigured = ""

    def start(self, endpoint: str, keys: WorkerKeys | None) -> None:
        """The workers connect to this endpoint; `poll` starts them."""
        self._keys, self._endpoint = keys, endpoint
        if self._factory is not None:
            self._visible = visible_gpus()
        for worker in self._workers:
            worker.spec = replace(worker.spec, endpoint=endpoint)

    def poll(self, now_s: float) -> list[tuple[str, str]]:
        """Notice ended workers and start those that are due.

        Returns (worker id, why) of the ended ones and of those that could not be started. Raises no
        `OSError`: a worker that cannot be started now is tried again later, like one that ended.
        """
        lost, self._never_ran = self._never_ran, []
        while self._retired:  # one poll later: the gateway has stopped polling them
            self._retired.pop().close()
        for worker in list(self._workers):
            if worker.process is not None and worker.process.poll() is not None:
                lost.append((worker.worker_id, self._ended(worker, worker.process, now_s)))
                self._workers.settle(worker)
            elif worker.process is not None:
                self._look_at(worker, now_s)
        for worker in list(self._workers):
            worker.after = [one for one in worker.after if one.process is not None]
            if worker.process is None and not self._stopping and not worker.after and worker.starts(now_s):
                why = self._start(worker, now_s)
                if why:
                    lost.append((worker.worker_id, why))
                    self._workers.settle(worker)
        return lost

    def ready(self, worker_id: str, now_s: float) -> None:
        """A worker has announced itself: it has started, and what ends it now is no wrong configuration."""
        self._workers.is_ready(worker_id, now_s)

    def hold(self, name: str, held: bool) -> None:
        self._workers.hold(name, held)

    def change(self, name: str, change: Callable[[WorkerSpec], WorkerSpec]) -> None:
        self._workers.change(name, change)

    def bequeath(self, name: str, change: Callable[[WorkerSpec], WorkerSpec], waits: bool = False) -> str:
        return self._workers.bequeath(name, change, waits)

    def inherit(self, name: str) -> None:
        self._workers.inherit(name)

    def revert(self, name: str) -> None:
        heir = self._workers.revert(name)
        if heir.process is None:
            self._workers.remove(heir)

    def add(self, placement: Placement, replicas: Collection[str]) -> list[str]:
        """Raises `GpuError`; then none of them is started. Where a GPU is still in use by a worker that was dropped,
        they are started when that has ended."""
        if self._factory is None:
            raise ClusterError("not_here", ClusterError.CAUSES["not_here"])
        servers = {placement.replicas[name].server for name in replicas}
        gpus = self._free_gpus(sorted(servers))
        specs = [
            replace(
                spec,
                endpoint=self._endpoint,
                gpu=gpus.get(placement.replicas[replica_name(spec.worker_id)].server, ""),
            )
            for spec in worker_specs(self._factory, placement, local=False)
            if replica_name(spec.worker_id) in replicas
        ]
        for spec in specs:
            after = [
                one for one in self._workers if one.dropped and one.spec.gpu and one.spec.gpu == spec.gpu
            ]
            numbers = Numbers(self._lives.get(spec.worker_id, 0))
            self._workers.append(Supervised(spec, numbers=numbers, after=after))
        return [spec.worker_id for spec in specs]

    def room(self) -> int:
        """As many as one likes where models run on CPUs."""
        free = self._untaken()
        return MAX_ROOM if free is None else len(free)

    def drop(self, name: str) -> list[str]:
        dropped = []
        for worker in self._workers.named(name):
            self._lives[name] = worker.numbers.last  # no id is given twice
            worker.held = worker.dropped = True
            if worker.process is None:
                self._workers.remove(worker)
            else:
                worker.killed_for = "it is not in the new schedule"
                worker.process.kill()
                dropped.append(worker.worker_id)
        return dropped

    def _untaken(self) -> list[str] | None:
        """The GPUs of no worker that stays, first those that are in use no more; None: workers have none."""
        used = [worker.spec.gpu for worker in self._workers]
        if not self._visible or self._factory is None or self._factory.server_cluster.gpu_type == "cpu":
            return None
        taken = {worker.spec.gpu for worker in self._workers if not worker.dropped}
        return sorted((gpu for gpu in self._visible if gpu not in taken), key=used.__contains__)

    def _free_gpus(self, servers: Sequence[str]) -> dict[str, str]:
        """A GPU for each of these servers; empty where workers have none."""
        free = self._untaken()
        if free is None:
            return {}
        if len(free) < len(servers):
            there = f"{len(free)} of {len(self._visible)} are free"
            words = f"{', '.join(servers)}: {len(servers)} GPUs are needed, {there}"
            raise GpuError("too_few_gpus", words)
        return dict(zip(servers, free, strict=False))

    def kill(self, worker_id: str, reason: str) -> None:
        """End a worker at once; `poll` reports it and starts another."""
        if self._workers.forget_heir(worker_id):
            self._never_ran.append((worker_id, reason))
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
        living = [(worker, worker.process) for worker in self._workers if worker.process is not None]
        running = [process for _, process in living]
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
        for worker, process in living:
            end_group(process.pid)
            self._reaper.forget(process.pid)
            if worker.output is not None:
                worker.output.read(time.monotonic(), worker.worker_id, last=True)
        self._reaper.close()

    def _ended(self, worker: Supervised, process: subprocess.Popen[bytes], now_s: float) -> str:
        """Clean up after a worker that has ended. Returns why it did."""
        if self._keys is not None:
            self._keys.withdraw(worker.worker_id)
        end_group(process.pid)  # what it has started and left behind
        self._reaper.forget(process.pid)
        if worker.output is not None:
            worker.output.read(now_s, worker.worker_id, last=True)
            worker.output.close()
        if worker.shm is not None:
            self._retired.append(worker.shm)
        worker.process, worker.shm, worker.output = None, None, None
        why = worker.ended(process.returncode, now_s)
        self.misconfigured = worker.misconfigured or self.misconfigured
        return why

    def _look_at(self, worker: Supervised, now_s: float) -> None:
        """Log what a running worker prints, and that it takes long to start."""
        if worker.output is not None:
            worker.output.read(now_s, worker.worker_id)
        if worker.ready_s is None and now_s >= worker.report_s:
            seconds = now_s - worker.started_s
            worker.report_s = worker.started_s + 2 * seconds
            model = worker.spec.model
            log.warning("worker_still_starting", worker=worker.worker_id, model=model, seconds=round(seconds))

    def _start(self, worker: Supervised, now_s: float) -> str:
        """Start a worker. Returns why that failed; empty when it runs."""
        worker.begin()
        shm: ShmWriter | None = None
        output: Output | None = None
        log_fd = -1
        try:
            shared = hasattr(os, "memfd_create") and not worker.spec.far and self._keys is None
            shm = ShmWriter() if shared else None
            output = Output()
            log_fd = _standard_error()
            fds = shm.fds if shm is not None else ()
            keys = self._keys.issue(worker.worker_id) if self._keys is not None else None
            spec = replace(worker.spec, worker_id=worker.worker_id, parent_pid=os.getpid(), keys=keys)
            spec = replace(spec, shm_fds=fds, log_fd=log_fd)
            worker.process = subprocess.Popen(
                spec.command(),
                stdin=subprocess.DEVNULL,
                stdout=output.theirs,
                stderr=output.theirs,
                pass_fds=(*fds, log_fd),
                env=spec.environment(os.environ),
                process_group=0,  # Ctrl-C is the server's; and what the worker starts ends with it
            )
        except OSError as error:  # no descriptor, no process, no memory, no program
            if shm is not None:
                shm.close()
            if output is not None:
                output.close()
            if self._keys is not None:
                self._keys.withdraw(worker.worker_id)
            worker.start_at_s = worker.backoff.later(now_s)
            return f"could not be started: {error}"
        finally:
            if log_fd >= 0:
                os.close(log_fd)
        self._reaper.watch(worker.process.pid)
        output.started()
        if shm is not None:
            shm.theirs.close()  # otherwise the end of the worker would never be noticed
        worker.shm, worker.output, worker.started_s = shm, output, now_s
        worker.report_s = now_s + REPORT_START_S
        log.event(
            "worker_started",
            worker=worker.worker_id,
            model=spec.model,
            backend=spec.backend,
            pid=worker.process.pid,
        )
        return ""


def _standard_error() -> int:
    """A descriptor of the server's standard error for a worker; where there is none, one that takes everything."""
    try:
        return os.dup(2)
    except OSError:
        return os.open(os.devnull, os.O_WRONLY)
