"""One System 1 server and scripted robots: what a way of batching achieves (benchmarks/.../batching.py).

Each robot calls System 1, acts for 200 ms, and calls again; a call that missed its deadline is made again. Only the
server's time is made up, from a profile; half of the robots have each of the SLOs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rosa_contract.config.factory import parse_factory
from rosa_contract.config.tasks import SYSTEM1
from rosa_server.plan.placement import Placement, Replica
from rosa_server.serving.core.queueing.actions import Dispatch
from rosa_server.simulator.scripted import ScriptedFleet, Tally
from rosa_server.simulator.servers import Serving
from rosa_server.timing.batches import BatchProfile

JITTER = 0.03  # of actions and of batches: standard deviation, as a share
FACTORY = """
server_cluster: {num_servers: 1}
robot_fleet: [{task: hurried, num_robots: 1}, {task: patient, num_robots: 1}]
hurried:
  pipeline: {action_period_ms: 200}
  components: {system1: {model: policy, slo_ms: 200}}
patient:
  pipeline: {action_period_ms: 200}
  components: {system1: {model: policy, slo_ms: 400}}
"""
TASKS = ("hurried", "patient")


class BatchingLoop(ScriptedFleet):
    """`deadline_aware`: dynamic batching up to `batch`; else a free worker takes what waits, up to `batch`.
    `padded`: whatever runs takes as long as a full batch, as with one CUDA Graph. `planned`: the gateway knows the
    profile, as with a schedule; else it learns how long each size takes.
    """

    def __init__(
        self,
        robots: int,
        batch: int,
        profile: BatchProfile,
        deadline_aware: bool = True,
        padded: bool = False,
        seed: int = 0,
        planned: bool = False,
    ) -> None:
        replica = Replica("gpu0", "policy", "gpu0", batch=batch, deadline_aware=deadline_aware)
        if planned:
            service_ms = {size: 1000 * profile.service_s(size) for size in profile.sizes}
            replica = replace(replica, service_ms=service_ms, padded=profile.padded)
        names = {f"r{index}": TASKS[index % 2] for index in range(robots)}
        slots = {f"{task}/{name[1:]}": {SYSTEM1: "gpu0"} for name, task in names.items()}
        times = BatchProfile({batch: profile.service_s(batch) * 1000}, padded=True) if padded else profile
        placement = Placement({"gpu0": replica}, slots)
        serving = Serving(parse_factory(FACTORY), placement, {"gpu0": times}, variation=JITTER)
        self.batches: list[int] = []
        starts_s = {name: 0.4 * index / robots for index, name in enumerate(names)}
        super().__init__(
            serving,
            names,
            Tally(),
            seed=seed,
            action_variation=JITTER,
            start_s=starts_s.__getitem__,
            watch=self._saw,
        )

    def _saw(self, now_s: float, action: Any) -> None:
        if isinstance(action, Dispatch):
            self.batches.append(len(action.calls))

    @property
    def latencies_ms(self) -> list[float]:
        """Of the calls in time."""
        return [1000 * took_s for took_s in self.tally.latencies_s.get(SYSTEM1, [])]

    @property
    def missed(self) -> int:
        return self.tally.late[SYSTEM1]
