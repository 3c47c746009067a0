"""Calls go to the cloud when its answer, link included, is expected before the edge would begin with them."""

from __future__ import annotations

from math import inf

import pytest

from rosa_contract.config.factory import parse_factory
from rosa_contract.errors import ConfigError
from rosa_server.plan.placement import Placement, Replica, unplanned
from rosa_server.serving.core.queueing.tiers import Edge, overflow
from tests.unit.server.serving.core.stage import FACTORY, IMAGES, STATE, Stage, m

LINK_MS, EDGE_MS, CLOUD_MS = 100.0, 200.0, 50.0
CLOUDY = (
    FACTORY
    + """
models:
  policy: {backend: emulated, workers: 2, cloud: {workers: 3, link_ms: 80, options: {latency_ms: 9}}}
"""
)


def latency_s(size: int) -> float:
    return 2 * LINK_MS / 1000 + CLOUD_MS / 1000


def test_the_first_that_wait_longer_than_the_cloud_takes_go_there() -> None:
    # Free in 0.1 s, then 0.2 s a call: positions wait 0.1, 0.3, ...; the cloud answers in 0.25 s.
    assert overflow(Edge(0.1, 0.2, 1), [inf] * 4, 2, latency_s) == [1, 2]
    assert overflow(Edge(0.1, 0.2, 1), [inf] * 4, 9, latency_s) == [1, 2, 3]


def test_who_leaves_makes_room_at_the_edge() -> None:
    # Without the one that has left, each is one place further ahead.
    assert overflow(Edge(0.04, 0.2, 1), [inf] * 3, 1, latency_s) == [2]
    assert overflow(Edge(0.3, 0.2, 1), [inf] * 1, 1, latency_s) == [0]


def test_nobody_leaves_an_edge_that_is_fast_enough() -> None:
    assert overflow(Edge(0.0, 0.2, 8), [inf] * 8, 8, latency_s) == []
    assert overflow(Edge(0.25, 0.2, 8), [inf] * 8, 8, latency_s) == []


def test_what_would_be_late_from_the_cloud_as_well_stays() -> None:
    assert overflow(Edge(1.0, 0.2, 1), [0.2, 0.3, 0.2, 0.26], 4, latency_s) == [1, 3]


def test_without_an_edge_everything_goes() -> None:
    assert overflow(Edge(inf, 0.0, 0), [inf] * 3, 2, latency_s) == [0, 1]


def tiers() -> Placement:
    """One server at the edge and one in the cloud, batches of one, and a guard."""
    policy = {"batch": 1, "pool": "policies", "waits": False}
    replicas = [
        Replica("edge", "policy", "edge", service_ms={1: EDGE_MS}, **policy),
        Replica("cloud", "policy", "cloud", service_ms={1: CLOUD_MS}, link_ms=LINK_MS, **policy),
        Replica("guard", "guard", "guard", batch=64),
    ]
    slot = {"system1": "edge", "safety": "guard", "monitor": "guard"}
    return Placement({one.id: one for one in replicas}, {f"pick/{n}": slot for n in range(6)})


def staged(*left_out: str) -> Stage:
    stage = Stage(placement=tiers())
    for replica in stage.core.router.placement.replicas.values():
        if replica.id not in left_out:
            needs = (IMAGES, STATE) if replica.model == "policy" else ({}, {})
            ready = m.WorkerReady(f"{replica.id}/0.1", replica.model, 64, *needs, 1)
            stage.core.on_ready(stage.now_s, ready)
    stage.settle()
    for index in range(6):
        assert isinstance(stage.greet(f"r{index}"), m.Welcome)
    return stage


def held(stage: Stage) -> dict[str, list[str]]:
    """Server -> the robots whose calls it runs."""
    return {
        worker.partition("/")[0]: [call.robot_id for one in batches for call in one.calls]
        for worker, batches in stage.held.items()
        if batches
    }


def test_the_gateway_fills_the_edge_and_sends_what_is_left_over_away() -> None:
    stage = staged()
    for index in range(2):
        stage.send(f"r{index}", budget_ms=900)
    assert held(stage) == {"edge": ["r0"]}, (
        "0.2 s of waiting is sooner than an answer from the cloud in 0.25 s"
    )
    stage.send("r2", budget_ms=900)
    assert held(stage) == {"edge": ["r0"], "cloud": ["r2"]}, "it would wait for 0.4 s"
    stage.send("r3", budget_ms=900)
    assert held(stage)["cloud"] == ["r2"], "the cloud's server is taken until r2 has run"
    stage.now_s += CLOUD_MS / 1000
    stage.settle()
    assert held(stage) == {"edge": ["r0"], "cloud": ["r2", "r3"]}, (
        "and the next one travels while r2's answer does"
    )


def test_the_cloud_learns_its_own_times() -> None:
    stage = staged()
    for index in range(3):
        stage.send(f"r{index}", budget_ms=900)
    stage.finish("cloud/0.1", inference_ms=50.0 + 5 * 100.0)
    stage.send("r4", budget_ms=900)
    assert held(stage) == {"edge": ["r0"], "cloud": ["r4"]}, "0.2 s + 0.15 s are still sooner than 0.4 s"
    state = stage.core._dispatcher.lanes["policies"]
    assert state.cloud_profile.service_s(1) == pytest.approx(0.15)
    assert state.batcher.profile.service_s(1) == pytest.approx(0.2)


def test_without_the_edge_the_cloud_serves_everybody() -> None:
    stage = staged()
    stage.lose("edge/0.1")
    stage.send("r0", budget_ms=900)
    assert held(stage) == {"cloud": ["r0"]}


def test_a_lost_cloud_gives_its_calls_back_to_the_edge() -> None:
    stage = staged()
    for index in range(3):
        stage.send(f"r{index}", budget_ms=900)
    stage.lose("cloud/0.1")
    stage.now_s += EDGE_MS / 1000
    stage.finish("edge/0.1", inference_ms=EDGE_MS)
    assert held(stage) == {"edge": ["r1"]}
    assert not [answer for answer in stage.answers if answer.cause]


def test_a_model_with_a_cloud_has_two_replicas_and_one_queue() -> None:
    placement = unplanned(parse_factory(CLOUDY.replace("QUEUE", "9")))
    edge, cloud = placement.replicas["policy"], placement.replicas["policy@cloud"]
    assert (edge.workers, edge.link_ms, edge.queue) == (2, 0.0, "policy")
    assert (cloud.workers, cloud.link_ms, cloud.queue, cloud.model) == (3, 80.0, "policy", "policy")
    assert placement.replica_of("policy@cloud/1.4", "policy") == "policy@cloud"
    assert placement.replica_of("policy/0.1", "policy") == "policy"
    assert set(placement.replicas) == {"policy", "policy@cloud", "guard"}


def test_a_cloud_without_a_link_is_an_error_with_its_path() -> None:
    with pytest.raises(ConfigError, match=r"models\.policy\.cloud\.link_ms.*> 0"):
        parse_factory(CLOUDY.replace("QUEUE", "9").replace("link_ms: 80", "link_ms: 0"))
