"""What goes wrong on the server side: the gateway that restarts, workers that end, are slow, or talk nonsense."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache, partial
from math import inf
from random import Random
from typing import Any

import numpy as np

from rosa_contract.config.factory import Factory
from rosa_contract.wire.messages import Executed, Output
from rosa_server.plan.admission import AdmissionControl, NoAdmission
from rosa_server.plan.placement import Placement, Replica, replica_name
from rosa_server.scheduler.placement.schedule import Schedule
from rosa_server.scheduler.problem import problem_from
from rosa_server.scheduler.profiles.library import ProfileLibrary
from rosa_server.scheduler.profiles.options import Options
from rosa_server.scheduler.search.solve import solve
from rosa_server.serving.core.dispatch.core import ServingCore
from rosa_server.serving.core.queueing.actions import Dispatch, Kill
from rosa_server.simulator.servers import LARGEST_BATCH, Serving
from rosa_server.simulator.workers import SimulatedWorker
from rosa_sim.chaos.plan import Fault, Plan
from rosa_sim.chaos.rescheduling import another
from rosa_sim.chaos.robots import FaultyRobots
from rosa_sim.chaos.watch import ServerWatch
from rosa_sim.fleet.scenario import load_scenario
from rosa_sim.fleet.systems import ROSA, carrying_out, fleet_of

LIBRARY = ProfileLibrary()
NONSENSE = ("unknown_batch", "other_tickets", "twice", "wrong_shape", "out_of_range", "model_error")
STARTS_AGAIN_S = 3.0  # a worker that the gateway ended is warm again


@lru_cache(maxsize=32)
def _scheduled(scenario: str, robots: int, standby: int) -> tuple[Factory, Schedule]:
    factory = fleet_of(load_scenario(scenario).factory, robots)
    return factory, solve(problem_from(factory), LIBRARY, Options(standby=standby))


def serving_of(plan: Plan) -> Serving:
    """A server side that has seen nothing yet. Raises `ValueError` when the schedule serves nobody."""
    factory, schedule = _scheduled(plan.scenario, plan.robots, plan.standby)
    factory = replace(factory, gateway=replace(factory.gateway, queue_per_model=plan.queue_limit))
    serving = carrying_out(ROSA, factory, schedule, LIBRARY, 0.05)
    if serving is None:
        raise ValueError(f"{plan.scenario} with {plan.robots} robots: the schedule serves no robot")
    return serving


def nonsensical(done: Executed, nonsense: str) -> Executed:
    """What a broken worker says instead; `nonsense`: one of `NONSENSE`, or empty."""
    count = len(done.outputs)
    if nonsense == "unknown_batch":
        return replace(done, batch_id=done.batch_id + 1_000_000)
    if nonsense == "other_tickets":
        return replace(done, tickets=[ticket + 1 for ticket in done.tickets])
    if nonsense == "wrong_shape":
        return replace(done, outputs=[Output({"actions": np.zeros((1, 1), np.float32)})] * count)
    if nonsense == "out_of_range":
        far = np.full((1, 2), 9.0, np.float32)
        return replace(done, outputs=[Output({"actions": far}, "perhaps")] * count)
    if nonsense == "model_error":
        return replace(done, errors=[("model_error", "nonsense")] * count, outputs=[b""] * count)
    return done


class FaultyServers(FaultyRobots):
    """The simulated fleet in which the server side fails as a plan says, and a watch looks on."""

    def __init__(self, plan: Plan) -> None:
        self._down = False  # the gateway is
        # A rescheduling that is at work: the fault, the core that it changed, and what held before.
        self._before: tuple[Fault, ServingCore, tuple[Placement, AdmissionControl, dict[str, int]]] | None = (
            None
        )
        self._silenced: set[str] = set()  # workers that have ended and the gateway does not know
        serving = serving_of(plan)
        self.watching = ServerWatch(serving.factory)
        self._servers = sorted({r.server for r in serving.placement.replicas.values()})
        super().__init__(plan, "chaos run", serving, watch=self._saw)

    def _saw(self, now_s: float, action: Any) -> None:
        self.watching.action(now_s, action)

    def _book(self) -> None:
        """Add up what the watch of this gateway's life has counted."""
        self.counts["accepted"] += self.watching.accepted
        for name, number in self.watching.answers.items():
            self.counts[f"answer {name}"] += number

    def _hit_servers(self, fault: Fault) -> list[str]:
        numbers = {target % len(self._servers) for target in fault.targets}
        return [s for index, s in enumerate(self._servers) if not fault.targets or index in numbers]

    # -- the gateway ---------------------------------------------------------------------------------------------------

    def _gateway_dies(self, now_s: float) -> None:
        """It forgets everything, and its workers end with it."""
        self._down = True
        for server in self._servers:
            self._drop_workers(server)
        self._core_wake_s = inf

    def _gateway_returns(self, now_s: float) -> None:
        if self._active("gateway_restarted"):
            return
        self._down = False
        self._silenced.clear()
        self._book()
        self._serving = serving_of(self.plan)
        self.core = ServingCore(self._serving.factory, self._serving.placement, self._serving.admission, str)
        self.watching = ServerWatch(self._serving.factory)
        for server in self._servers:
            self._warm(server)

    def _tick_core(self) -> None:
        if not self._down:
            super()._tick_core()
            self.watching.ticked(self.now_s, self.core)

    def _reschedule(self, fault: Fault, now_s: float) -> None:
        """Another schedule takes the place of the one that runs; one at a time, as a server does it."""
        if self._down or self._before is not None:
            return
        router = self.core.router
        before = (router.placement, router.admission, dict(router.planned))
        self._before = fault, self.core, before
        other = another(router.placement, Random(f"{fault.amount}"))
        self.core.adopt(now_s, other, NoAdmission("a rescheduling is at work"))

    def _schedule_returns(self, fault: Fault, now_s: float) -> None:
        """The schedule from before holds again; a gateway that was restarted meanwhile has it already."""
        if self._before is None or self._before[0] is not fault:
            return
        _, core, before = self._before
        self._before = None
        if core is self.core and not self._down:
            core.adopt(now_s, *before)
            for server in self._servers:
                self._warm(server)

    # -- workers -------------------------------------------------------------------------------------------------------

    def _start_worker(self, replica: Replica, number: int) -> None:
        place = f"{replica.id}/{number}"
        worker_id = f"{place}.{self._lives.get(place, 0) + 1}"
        self.watching.worker(worker_id, replica.model, replica.at_once or 1, replica.batch or LARGEST_BATCH)
        super()._start_worker(replica, number)

    def _drop_workers(self, server: str) -> list[str]:
        gone = [w for w in self._workers.values() if self._replica(w).server == server]
        for worker in gone:
            worker.alive = False
            del self._workers[worker.worker_id]
        self.gpus.pop(server, None)
        return [worker.worker_id for worker in gone]

    def _end_workers(self, server: str, now_s: float, notices_s: float) -> None:
        """The workers of a server end; the gateway notices later."""
        for worker_id in self._drop_workers(server):
            self._silenced.add(worker_id)
            self.at(now_s + notices_s, partial(self._notice, worker_id))

    def _notice(self, worker_id: str, now_s: float) -> None:
        if worker_id in self._silenced and not self._down:
            self._silenced.remove(worker_id)
            self.watching.worker_gone(worker_id)
            self.core.on_lost(now_s, worker_id, "ended by the fault plan")

    def _warm(self, server: str) -> None:
        """Start the workers of a server that are not there, unless something keeps them down."""
        if self._down or any(server in self._hit_servers(f) for f in self._active("worker_killed")):
            return
        here = {worker_id.rpartition(".")[0] for worker_id in self._workers}
        for replica in self._serving.placement.replicas.values():
            for number in range(replica.workers):
                place = f"{replica.id}/{number}"
                if replica.server == server and place not in here:
                    for old in [w for w in self._silenced if w.rpartition(".")[0] == place]:
                        self._notice(old, self.now_s)
                    self._start_worker(replica, number)

    def _kill(self, now_s: float, kill: Kill) -> None:
        """The cluster ends the worker and starts another."""
        self.counts["killed_by_the_gateway"] += 1
        self.watching.worker_gone(kill.worker_id)
        self._silenced.discard(kill.worker_id)
        worker = self._workers.pop(kill.worker_id, None)
        if worker is not None:
            worker.alive = False
        server = self._serving.placement.replicas[replica_name(kill.worker_id)].server
        self.gpus.pop(server, None)
        self.at(now_s + STARTS_AGAIN_S, lambda _: self._warm(server))

    def _dispatch(self, now_s: float, batch: Dispatch) -> None:
        worker = self._workers.get(batch.worker_id)
        if worker is not None:
            slower = [f.amount for f in self._active("worker_slow") if self._server_hit(f, batch.worker_id)]
            worker.slower = max([1.0, *slower])
        super()._dispatch(now_s, batch)

    def _server_hit(self, fault: Fault, worker_id: str) -> bool:
        return self._serving.placement.replicas[replica_name(worker_id)].server in self._hit_servers(fault)

    def _batch_ends(self, now_s: float, worker: Any, done: Any) -> None:
        if worker.alive and not self._down:
            super()._batch_ends(now_s, worker, done)

    def _executed(self, now_s: float, worker: SimulatedWorker, done: Executed) -> None:
        said = [self._said(output) for output in done.outputs]
        if any(new is not old for new, old in zip(said, done.outputs, strict=True)):
            done = replace(done, outputs=said)
        active = [f for f in self._active("worker_nonsense") if self._server_hit(f, worker.worker_id)]
        nonsense = NONSENSE[int(active[0].amount)] if active else ""
        done = nonsensical(done, nonsense)
        for _ in range(2 if nonsense == "twice" else 1):
            self.watching.executed(worker.worker_id, done.batch_id)
            self.core.on_executed(now_s, worker.worker_id, done)
