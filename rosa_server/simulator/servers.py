"""The server side under a simulated clock: the gateway's `ServingCore` and workers on their GPUs."""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from math import inf
from random import Random
from typing import Any

import numpy as np

from rosa_contract.config.factory import Factory
from rosa_contract.wire.messages import Executed, Output, Response, ToRobot, WorkerReady
from rosa_server.plan.admission import AdmissionControl
from rosa_server.plan.placement import Placement, Replica
from rosa_server.serving.core.dispatch.core import ServingCore
from rosa_server.serving.core.queueing import actions
from rosa_server.serving.core.queueing.actions import Dispatch, Kill, Note, Reply, Say, Tell
from rosa_server.simulator.workers import Gpu, SimulatedWorker, answer_of, cancelled, executed
from rosa_server.timing.batches import BatchProfile

CHUNK = Output({"actions": np.zeros((1, 2), np.float32)})  # (horizon, joint and gripper)
LARGEST_BATCH = 64
# Kinds of events. A CALL is something done to the simulation, HEARD something that the gateway hears without a network.
WAKE, TO_GATEWAY, TO_ROBOT, BATCH_ENDS, GATEWAY_WAKES, CALL, HEARD = range(7)
FOR_THE_GATEWAY = (TO_GATEWAY, BATCH_ENDS, HEARD)


@dataclass
class Serving:
    """What the server side of a simulation is made of."""

    factory: Factory
    placement: Placement
    services: Mapping[str, BatchProfile]  # replica -> time of a batch by its size
    admission: AdmissionControl | None = None
    variation: float = 0.0  # of one run, see `SimulatedWorker`


class SimulatedServers(ABC):
    """The clock, the events to come, and the servers' part in them. A subclass carries messages to robots (`_say`)."""

    def __init__(
        self,
        serving: Serving,
        seed: int = 0,
        window: tuple[float, float] = (0.0, inf),
        watch: Callable[[float, Any], None] | None = None,
    ) -> None:
        """`window`: when GPU time counts. `watch` sees every action of the serving core, with its time."""
        self.now_s = 0.0
        self.core = self._make_core(serving)
        self.events = 0  # what the clock stopped at
        self.over = False  # nothing of interest is to come: `run` returns
        self.gpus: dict[str, Gpu] = {}
        self.notes: list[tuple[float, Note]] = []
        self._serving, self._seed, self._window, self._watch = serving, seed, window, watch
        self._heap: list[tuple[float, int, int, Any, Any]] = []
        self._order = 0
        self._workers: dict[str, SimulatedWorker] = {}
        self._lives: dict[str, int] = {}
        self._core_wake_s = inf
        components = {name for task in serving.factory.tasks.values() for name in task.components}
        self._answers = {name: answer_of(name, CHUNK) for name in components}
        for replica in serving.placement.replicas.values():
            for number in range(0 if replica.node else replica.workers):
                self._start_worker(replica, number)

    def _make_core(self, serving: Serving) -> ServingCore:
        # A separate run: a robot that an earlier one has admitted is not here.
        return ServingCore(serving.factory, serving.placement, copy(serving.admission), lambda: "")

    def at(self, time_s: float, call: Callable[[float], None]) -> None:
        """Have something done at a time."""
        self._at(time_s, CALL, lambda now_s, _: call(now_s), None)

    def _at(self, time_s: float, kind: int, subject: Any, what: Any) -> None:
        self._order += 1
        heapq.heappush(self._heap, (time_s, self._order, kind, subject, what))

    def lose_server(self, server: str, now_s: float) -> None:
        """Every worker of a server ends; what it ran is gone."""
        for worker in [w for w in self._workers.values() if self._replica(w).server == server]:
            worker.alive = False
            worker.gpu.lost(now_s, self._window)
            del self._workers[worker.worker_id]
            self.core.on_lost(now_s, worker.worker_id, "ended by the scenario")

    def return_server(self, server: str, now_s: float) -> None:
        """A lost server comes back warm."""
        for replica in self._serving.placement.replicas.values():
            if replica.server == server:
                for number in range(replica.workers):
                    self._start_worker(replica, number)

    def run(self, until_s: float) -> None:
        """Let time pass until `until_s`, or until it is over. After each instant in which the gateway has heard
        something, and whenever its core says so, the core is ticked, as the gateway's loop does."""
        heap, pop = self._heap, heapq.heappop
        self._tick_core()
        told = False  # the core has heard something since its last tick
        while heap and heap[0][0] <= until_s and not self.over:
            now_s, _, kind, subject, what = pop(heap)
            self.now_s = now_s
            self.events += 1
            if kind == CALL:
                subject(now_s, what)
                self._tick_core()
                continue
            if kind == BATCH_ENDS:
                # Of several calls that run together, each that begins or ends moves the others' ends.
                if what is not None or now_s == subject.shared.next_s:
                    self._batch_ends(now_s, subject, what)
                    told = True
            elif kind == GATEWAY_WAKES:
                told = told or now_s == self._core_wake_s  # else it has been ticked since
            elif kind == HEARD:
                subject(now_s, what)
                told = True
            elif self._happens(now_s, kind, subject, what):
                told = True
            else:
                continue
            if told and not (heap and heap[0][0] == now_s and heap[0][2] in FOR_THE_GATEWAY):
                told = False
                self._tick_core()
        if not self.over:
            self.now_s = until_s

    def _happens(self, now_s: float, kind: int, subject: Any, what: Any) -> bool:
        """An event of a kind that a subclass knows. Returns whether the gateway has heard something."""
        raise ValueError(f"no kind of event is {kind}")

    # -- the gateway ---------------------------------------------------------------------------------------------------

    def _tick_core(self) -> None:
        now_s = self.now_s
        next_s = self.core.tick(now_s)
        self._act(now_s)
        if next_s <= now_s:
            next_s = now_s + 1e-6
        if next_s != self._core_wake_s:
            self._core_wake_s = next_s
            self._at(next_s, GATEWAY_WAKES, None, None)

    def _act(self, now_s: float) -> None:
        for action in self.core.actions():
            if self._watch is not None:
                self._watch(now_s, action)
            if isinstance(action, Reply):
                call = action.call
                ran = action.batch_size > 0
                queue_ms = ((call.dispatched_s if ran else action.ended_s) - call.arrived_s) * 1000
                response = Response(
                    call.request_id,
                    action.status,
                    action.cause,
                    action.reason,
                    queue_ms,
                    action.inference_ms,
                    action.batch_size,
                    action.output,
                    call.pace,
                )
                self._say(now_s, call.connection, response)
            elif isinstance(action, Dispatch):
                self._dispatch(now_s, action)
            elif isinstance(action, actions.Cancel):
                self._cancel(now_s, action)
            elif isinstance(action, Say):
                self._say(now_s, action.connection, action.message)
            elif isinstance(action, Kill):
                self._kill(now_s, action)
            elif isinstance(action, Note):
                self.notes.append((now_s, action))
            elif isinstance(action, Tell):
                self._tell(now_s, action)

    def _kill(self, now_s: float, kill: Kill) -> None:
        raise RuntimeError(f"the serving core ends {kill.worker_id}: {kill.reason}")

    def _tell(self, now_s: float, tell: Tell) -> None:
        raise RuntimeError(f"there is no gateway {tell.node}")

    @abstractmethod
    def _say(self, now_s: float, connection: bytes, message: ToRobot) -> None:
        """Carry a message to the robot of a connection."""

    # -- workers -------------------------------------------------------------------------------------------------------

    def _start_worker(self, replica: Replica, number: int) -> None:
        place = f"{replica.id}/{number}"
        life = self._lives[place] = self._lives.get(place, 0) + 1
        gpu = self.gpus.setdefault(f"{replica.server}#{number}" if number else replica.server, Gpu())
        service = self._serving.services[replica.id]
        rng = Random(f"{self._seed} {place}.{life}")
        worker = SimulatedWorker(
            f"{place}.{life}", replica.model, replica.id, gpu, service, self._serving.variation, rng
        )
        worker.mixed = {component: BatchProfile(times) for component, times in replica.mixed_ms.items()}
        worker.prefill_ms, worker.decoding = replica.prefill_ms, replica.decoding
        self._workers[worker.worker_id] = worker
        limit = replica.batch or LARGEST_BATCH
        worker.epoch = self.core.router.placement.epoch
        ready = WorkerReady(
            worker.worker_id,
            replica.model,
            limit,
            {},
            {},
            replica.at_once or 1,
            epoch=worker.epoch,
            batch_sizes=service.sizes if service.padded else (),
        )
        self.core.on_ready(self.now_s, ready)

    def _replica(self, worker: SimulatedWorker) -> Replica:
        return self._serving.placement.replicas[worker.replica]

    def _dispatch(self, now_s: float, batch: Dispatch) -> None:
        worker = self._workers.get(batch.worker_id)
        if worker is None:
            return  # it is gone, and the core has been told
        if self._replica(worker).at_once is not None:
            worker.begin(now_s, batch)
            self._running_changes(now_s, worker)
            return
        service_s = worker.service_s(len(batch.calls))
        link_s = self._replica(worker).link_ms / 1000
        ready_s = now_s + link_s + worker.decode_s(len(batch.calls))
        ends_s = worker.gpu.take(ready_s, service_s, self._window) + link_s
        self._at(ends_s, BATCH_ENDS, worker, self._answered(worker, batch, service_s))

    def _cancel(self, now_s: float, cancel: actions.Cancel) -> None:
        """A worker drops calls and says so at once."""
        worker = self._workers.get(cancel.worker_id)
        if worker is None:
            return
        for batch in worker.drop(now_s, cancel.tickets):
            self._at(now_s, BATCH_ENDS, worker, cancelled(batch, worker.epoch))
        self._running_changes(now_s, worker)

    def _batch_ends(self, now_s: float, worker: SimulatedWorker, done: Any) -> None:
        if not worker.alive:
            return
        if done is not None:
            self._executed(now_s, worker, done)
        elif now_s == worker.shared.next_s:
            batch, begun_s = worker.shared.end(now_s)
            self._executed(now_s, worker, self._answered(worker, batch, now_s - begun_s))
            self._running_changes(now_s, worker)

    def _answered(self, worker: SimulatedWorker, batch: Dispatch, service_s: float) -> Executed:
        decode_ms = worker.decoding.request_ms if worker.decoding is not None else 0.0
        return executed(batch, service_s, self._answers, worker.epoch, decode_ms)

    def _executed(self, now_s: float, worker: SimulatedWorker, done: Executed) -> None:
        self.core.on_executed(now_s, worker.worker_id, done)

    def _running_changes(self, now_s: float, worker: SimulatedWorker) -> None:
        worker.gpu.busy(now_s, bool(worker.shared), self._window)
        if worker.shared.next_s < inf:
            self._at(worker.shared.next_s, BATCH_ENDS, worker, None)
