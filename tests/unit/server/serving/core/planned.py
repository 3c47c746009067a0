"""The stage of a server that runs a schedule of three servers, with one standby."""

from __future__ import annotations

from dataclasses import replace

from rosa_contract.wire import messages as m
from rosa_server.plan.admission import AdmissionControl, Admitted
from rosa_server.plan.placement import Placement, Replica
from tests.unit.server.serving.core.stage import Stage

FACTORY = """
server_cluster: {num_servers: 4}
robot_fleet: [{task: pick, num_robots: 2}, {task: sort, num_robots: 1}]
pick:
  pipeline: {action_period_ms: 400}
  components:
    system1: {model: policy, slo_ms: 300}
    safety: {model: guard, slo_ms: 500, freq_hz: 2}
sort:
  pipeline: {action_period_ms: 400}
  components:
    system1: {model: policy, slo_ms: 300}
gateway: {queue_per_model: QUEUE}
"""
PLACEMENT = Placement(
    replicas={
        "gpu0": Replica("gpu0", "policy", "gpu0", batch=2, deadline_aware=False),
        "gpu1": Replica("gpu1", "policy", "gpu1", batch=1, deadline_aware=False),
        "gpu2": Replica("gpu2", "guard", "gpu2", batch=4),
        "spare/policy": Replica("spare/policy", "policy", "spare", standby=True),
        "spare/guard": Replica("spare/guard", "guard", "spare", standby=True),
    },
    routes={
        "pick/0": {"system1": "gpu0", "safety": "gpu2"},
        "pick/1": {"system1": "gpu0", "safety": "gpu2"},
        "sort/0": {"system1": "gpu1"},
    },
    rates_hz={"pick": {"system1": 2.0, "safety": 2.0}, "sort": {"system1": 1.5}},
    standbys={"gpu0": ("spare/policy",), "gpu1": ("spare/policy",), "gpu2": ("spare/guard",)},
)
RATES = PLACEMENT.rates_hz["pick"]
WORKERS = {replica.id: replica.model for replica in PLACEMENT.replicas.values()}


class Door:
    """Admits one robot of `pick`, at lower rates for all, and nobody else."""

    def __init__(self) -> None:
        self.asked = 0
        self.inside = False

    def admit(self, task: str) -> Admitted | m.Refused:
        self.asked += 1
        if task != "pick" or self.inside:
            return m.Refused("not_admitted", "no server with safety has room for 2 req/s more")
        self.inside = True
        return Admitted("pick/2", self.placement, "pick/2 joins gpu1, gpu2; rates fall")

    def leave(self, slot: str) -> Placement:
        assert self.inside, "nobody is here who was not planned"
        self.inside = False
        routes = self.placement.routes or {}
        return replace(PLACEMENT, routes={name: each for name, each in routes.items() if name != slot})

    @property
    def placement(self) -> Placement:
        routes = {**(PLACEMENT.routes or {}), "pick/2": {"system1": "gpu1", "safety": "gpu2"}}
        replicas = {**PLACEMENT.replicas, "gpu1": replace(PLACEMENT.replicas["gpu1"], batch=2)}
        rates = {**PLACEMENT.rates_hz, "pick": {"system1": 1.0, "safety": 2.0}}
        return replace(PLACEMENT, replicas=replicas, routes=routes, rates_hz=rates)


def planned(
    door: AdmissionControl | None = None, *, warm: dict[str, str] = WORKERS, placement: Placement = PLACEMENT
) -> Stage:
    stage = Stage(factory=FACTORY, placement=placement, admission=door)
    for replica, model in warm.items():
        stage.worker(f"{replica}/0.1", model)
    return stage


def full(door: AdmissionControl | None = None, placement: Placement = PLACEMENT) -> Stage:
    """Every planned robot is there."""
    stage = planned(door, placement=placement)
    for robot, task in (("r0", "pick"), ("r1", "pick"), ("s0", "sort")):
        assert isinstance(stage.greet(robot, task), m.Welcome)
    return stage


def ran_at(stage: Stage) -> dict[int, str]:
    """Request id -> the replica that it was last sent to."""
    return {
        call.request_id: dispatch.worker_id.rpartition("/")[0]
        for dispatch in stage.dispatched
        for call in dispatch.calls
    }
