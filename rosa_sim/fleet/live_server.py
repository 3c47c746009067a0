"""A real gateway with emulated GPU workers for one system: the server of a live fleet.

The workers are processes with the emulated backend, each with the times of its replica's batches. The placement comes
from the system; everything else is what `rosa serve` runs.
"""

from __future__ import annotations

import json
import os
import signal
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from math import inf
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import yaml
import zmq

from rosa_contract.clock import MonotonicClock
from rosa_contract.wire.messages import Executed
from rosa_server.cluster.local import LocalCluster
from rosa_server.serving.base import log
from rosa_server.serving.base.descriptors import more_descriptors
from rosa_server.serving.base.worker_spec import WorkerSpec
from rosa_server.serving.core.dispatch.core import ServingCore
from rosa_server.serving.core.guard.limits import limits_for
from rosa_server.serving.core.queueing.actions import Action
from rosa_server.serving.edge.metrics import Metrics
from rosa_server.serving.gateway import Gateway
from rosa_server.simulator.servers import CHUNK, LARGEST_BATCH, Serving
from rosa_sim.far import FarLink
from rosa_sim.fleet.record import BatchRecord

MESSAGE_MB = 1.0
SIZES = 64  # batch sizes that a worker's table names
STOP_S = 5.0
LOG = "server.log"
Watch = Callable[[float, Action], None]


class WatchedCore(ServingCore):
    """Tells what it decides, and adds up GPU time by server."""

    watch: Watch | None = None
    busy_from_s: float = 0.0
    busy_to_s: float = 0.0

    def __init__(self, serving: Serving) -> None:
        super().__init__(serving.factory, serving.placement, serving.admission)
        self._ran: defaultdict[str, list[tuple[float, float]]] = defaultdict(
            list
        )  # server -> from when to when

    def actions(self) -> list[Action]:
        out = super().actions()
        if self.watch is not None:
            for action in out:
                self.watch(MonotonicClock().now_s(), action)
        return out

    def on_executed(self, now_s: float, worker_id: str, done: Executed) -> None:
        worker = self.pool.get(worker_id)
        if worker is not None and self.busy_from_s <= now_s < self.busy_to_s:
            server = self.router.placement.replicas[worker.replica].server
            self._ran[server].append((max(self.busy_from_s, now_s - done.inference_ms / 1000), now_s))
        super().on_executed(now_s, worker_id, done)

    def busy_s(self) -> dict[str, float]:
        """Server -> how long it ran something in the window."""
        return {server: covered_s(spans) for server, spans in self._ran.items()}


def covered_s(spans: Iterable[tuple[float, float]]) -> float:
    """How long at least one of them lasts: calls that run beside each other take their server once."""
    total_s, until_s = 0.0, -inf
    for from_s, to_s in sorted(spans):
        total_s += max(0.0, to_s - max(from_s, until_s))
        until_s = max(until_s, to_s)
    return total_s


class LiveServer:
    """Call `step` until it is `ready`, then as long as it shall serve, then `close`."""

    def __init__(self, serving: Serving, folder: Path, load_s: float = 0.0) -> None:
        """`load_s`: how long a worker takes to load its model, again after it was lost."""
        self.core = WatchedCore(serving)
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        workers = f"ipc://{folder / 'workers'}"
        links_ms = {r.link_ms for r in serving.placement.replicas.values() if r.link_ms}
        self._links = {ms: FarLink(workers, f"ipc://{folder / f'far-{ms:g}'}", ms / 1000) for ms in links_ms}
        self.cluster = LocalCluster(worker_specs(serving, folder, workers, load_s))
        self.gateway = Gateway(
            self.core,
            self._context,
            "tcp://127.0.0.1:*",
            workers,
            MonotonicClock(),
            self.cluster,
            Metrics(),
            MESSAGE_MB,
            None,
            limits_for(more_descriptors()),
        )

    @property
    def ready(self) -> bool:
        return self.core.health().ready

    def step(self) -> None:
        self.gateway.step()

    def lose(self, server: str) -> None:
        """End the workers of a server; the cluster starts them again."""
        for worker in list(self.core.pool):
            if self.core.router.placement.replicas[worker.replica].server == server:
                self.cluster.kill(worker.worker_id, "ended by the scenario")

    def close(self) -> None:
        self.core.give_up(MonotonicClock().now_s(), "the run is over")
        self.gateway.step(0.0)
        self.gateway.workers.drain_all()
        self.cluster.stop(STOP_S)
        for link in self._links.values():
            link.close()
        self.gateway.close()
        for _ in range(2):  # it sees that they have ended, and then closes the memory shared with them
            self.cluster.poll(MonotonicClock().now_s())
        self._context.term()


def shares_gpus(serving: Serving) -> bool:
    """Whether several models run on one GPU whose turns nobody gives, which emulated workers in processes of their own
    cannot show."""
    replicas = serving.placement.replicas.values()
    servers = Counter(r.server for r in replicas if not r.standby and not r.takes_turns)
    return any(count > 1 for count in servers.values())


def serve_until_told(
    serving: Serving,
    losses: Sequence[tuple[float, str]],
    talk: Connection,
    folder: Path,
    record: bool = False,
) -> None:
    """The server's process: says its endpoint when warm, hears when to count GPU time, and ends with what it counted.

    `losses`: (s after the start, server) that fail. `folder`: for its sockets, its workers' tables and its log.
    `record`: it ends with every batch, too.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started it ends it
    with (folder / LOG).open("ab") as file:
        os.dup2(file.fileno(), 2)  # its workers write there, too
    log.to_stderr()
    parent = os.getppid()
    clock = MonotonicClock()
    server = LiveServer(serving, folder)
    try:
        while not server.ready and os.getppid() == parent:
            server.step()
        talk.send_bytes(server.gateway.robots_endpoint.encode())
        while not talk.poll() and os.getppid() == parent:
            server.step()
        started_s, from_s, to_s = json.loads(talk.recv_bytes())
        server.core.busy_from_s, server.core.busy_to_s = from_s, to_s
        batches = BatchRecord(started_s)
        if record:
            server.core.watch = batches.watch
        left = sorted(losses)
        while not talk.poll() and os.getppid() == parent:
            if left and clock.now_s() >= started_s + left[0][0]:
                server.lose(left.pop(0)[1])
            server.step()
        talk.send_bytes(json.dumps({"busy_s": server.core.busy_s(), "batches": batches.batches}).encode())
    finally:
        server.close()


def worker_specs(serving: Serving, folder: Path, endpoint: str, load_s: float) -> list[WorkerSpec]:
    """A worker process for each of every replica, with its times in a file of `folder`; `load_s` as of `LiveServer`."""
    specs: list[WorkerSpec] = []
    horizon, dof = CHUNK.arrays["actions"].shape
    for replica in serving.placement.replicas.values():
        table = serving.services[replica.id]
        path = folder / f"{replica.id.replace('/', '-')}.yaml"
        times = {size: round(table.service_s(size) * 1000, 4) for size in range(1, SIZES + 1)}
        document: dict[str, Any] = {"batch_latency_ms": times}
        if replica.prefill_ms:
            document["component_prefill_ms"] = dict(replica.prefill_ms)
        if replica.mixed_ms:
            own = {component: dict(table) for component, table in replica.mixed_ms.items()}
            document["component_latency_ms"] = own
        path.write_text(yaml.safe_dump(document))
        # A worker that batches continuously runs single calls, each of which varies by this share of its own time.
        usual = 1 if (replica.at_once or 1) > 1 else replica.batch or 1
        for number in range(replica.workers):
            options: dict[str, Any] = {
                "profile": str(path),
                "jitter_ms": serving.variation * times[usual],
                "seed": len(specs),
                "load_s": load_s,
                "horizon": horizon,
                "dof": dof,
                "max_batch": replica.batch or LARGEST_BATCH,
                "at_once": replica.at_once or 1,
            }
            name = f"{replica.id}/{number}"
            far = replica.link_ms > 0
            where = f"ipc://{folder / f'far-{replica.link_ms:g}'}" if far else endpoint
            specs.append(WorkerSpec(name, replica.model, "emulated", where, None, options, far=far))
    return specs
