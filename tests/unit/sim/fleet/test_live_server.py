"""A live server: how busy it is, and workers that vary as simulated ones do."""

from __future__ import annotations

from pathlib import Path
from statistics import mean, stdev

import pytest

from rosa_contract.config.factory import parse_factory
from rosa_server.models.emulated import EmulatedBackend
from rosa_server.plan.placement import Placement, Replica
from rosa_server.simulator.servers import Serving
from rosa_server.timing.batches import BatchProfile
from rosa_sim.fleet.live_server import covered_s, worker_specs

FACTORY = parse_factory("""
server_cluster: {num_servers: 1}
robot_fleet: [{task: sort, num_robots: 1}]
sort: {pipeline: {action_period_ms: 200}, components: {system1: {model: policy, slo_ms: 300}}}
""")


@pytest.mark.parametrize(
    ("spans", "covered"),
    [
        ([], 0.0),
        ([(1.0, 2.0), (3.0, 5.0)], 3.0),
        ([(4.0, 5.0), (0.0, 10.0)], 10.0),
        ([(0.0, 2.0), (1.0, 3.0), (1.5, 2.5), (6.0, 7.0)], 4.0),
    ],
)
def test_what_runs_beside_each_other_counts_once(spans: list[tuple[float, float]], covered: float) -> None:
    assert covered_s(spans) == pytest.approx(covered)


@pytest.mark.parametrize(
    ("replica", "size"),
    [
        (Replica("gpu0", "policy", "gpu0", batch=4), 4),
        (Replica("gpu0", "policy", "gpu0", batch=64, at_once=8), 1),
    ],
    ids=["a full batch", "calls that come and go by themselves"],
)
def test_a_live_worker_varies_as_the_simulated_one_does(tmp_path: Path, replica: Replica, size: int) -> None:
    """Once a single call varied by a share of the time of 64 calls: live monitors took twice as long as simulated."""
    times = BatchProfile({1: 50.0, 4: 110.0, 64: 1500.0})
    placement = Placement({"gpu0": replica}, {"sort/0": {"system1": "gpu0"}})
    serving = Serving(FACTORY, placement, {"gpu0": times}, variation=0.03)
    [spec] = worker_specs(serving, tmp_path, "ipc://unused", load_s=0.0)
    backend = EmulatedBackend(**spec.options)
    took_ms = [backend.batch_ms(size) for _ in range(2000)]
    assert mean(took_ms) == pytest.approx(times.service_s(size) * 1000, rel=0.01)
    assert stdev(took_ms) / mean(took_ms) == pytest.approx(0.03, rel=0.1)
