"""A server of a schedule that fails: which standby serves its robots, and since when."""

from __future__ import annotations

from dataclasses import replace

from rosa_contract.wire import messages as m
from rosa_server.plan.placement import Replica
from tests.unit.server.serving.core.planned import PLACEMENT, WORKERS, full, planned, ran_at


def test_a_lost_server_hands_what_it_held_and_what_waits_to_its_standby_at_once() -> None:
    stage = full()
    stage.send("r0", 1, budget_ms=5000)
    stage.send("r1", 2, budget_ms=5000)  # waits behind it
    stage.send("s0", 3, budget_ms=5000)
    stage.lose("gpu0/0.1")
    assert ran_at(stage) == {1: "spare/policy", 2: "spare/policy", 3: "gpu1"}
    assert [len(d.calls) for d in stage.dispatched if d.worker_id == "spare/policy/0.1"] == [2], (
        "batch of gpu0"
    )
    (note,) = stage.notes
    assert note.event == "streams_moved"
    assert note.fields == {"of": "gpu0", "to": "spare/policy", "reason": "gpu0 failed: ended by SIGKILL"}
    stage.finish("spare/policy/0.1")
    assert stage.statuses() == [("r0", 1, "ok"), ("r1", 2, "ok")]


def test_a_standby_batches_as_planned_for_the_server_that_it_stands_in_for() -> None:
    alone = replace(PLACEMENT.replicas["gpu0"], batch=1)
    stage = full(placement=replace(PLACEMENT, replicas={**PLACEMENT.replicas, "gpu0": alone}))
    stage.send("r0", 1, budget_ms=5000)
    stage.send("r1", 2, budget_ms=5000)
    stage.lose("gpu0/0.1")
    assert [len(d.calls) for d in stage.dispatched if d.worker_id == "spare/policy/0.1"] == [1]
    stage.finish("spare/policy/0.1")
    stage.finish("spare/policy/0.1")
    assert stage.count() == {"ok": 2}


def test_with_two_standbys_the_second_takes_over_when_the_first_dies_too() -> None:
    second = Replica("other/policy", "policy", "other", standby=True)
    stage = full(
        placement=replace(
            PLACEMENT,
            replicas={**PLACEMENT.replicas, "other/policy": second},
            standbys={"gpu0": ("spare/policy", "other/policy"), "gpu1": ("spare/policy", "other/policy")},
        )
    )
    stage.worker("other/policy/0.1", "policy")
    stage.lose("gpu0/0.1")
    stage.lose("gpu1/0.1")
    stage.send("r0", 1)
    stage.send("s0", 2)
    assert ran_at(stage) == {1: "spare/policy", 2: "other/policy"}
    stage.worker("gpu1/0.2", "policy")
    stage.finish("other/policy/0.1")
    stage.lose("spare/policy/0.1")
    assert ran_at(stage) == {1: "other/policy", 2: "other/policy"}


def test_the_streams_go_back_when_the_server_is_warm_again() -> None:
    stage = full()
    stage.lose("gpu0/0.1")
    stage.send("r0", 1, budget_ms=5000)
    stage.send("r1", 2, budget_ms=5000)
    stage.worker("gpu0/0.2", "policy")
    assert ran_at(stage) == {1: "spare/policy", 2: "gpu0"}, "what runs stays, what waits moves"
    assert stage.notes[-1].fields["reason"] == "gpu0 is warm"
    stage.finish("spare/policy/0.1")
    stage.finish("gpu0/0.2")
    assert stage.count() == {"ok": 2}


def test_a_standby_server_stands_in_for_one_server_at_a_time() -> None:
    stage = full()
    stage.lose("gpu0/0.1")
    stage.lose("gpu2/0.1")
    stage.send("r0", 1, "safety", budget_ms=100)
    stage.wait(0.11)
    assert stage.statuses() == [("r0", 1, "unavailable")]
    assert "no worker of gpu2" in stage.answers[-1].reason
    stage.worker("gpu0/0.2", "policy")  # the standby is free again
    stage.send("r0", 2, "safety")
    assert ran_at(stage)[2] == "spare/guard"


def test_a_standby_that_dies_too_is_replaced_by_whoever_is_warm_first() -> None:
    stage = full()
    stage.lose("gpu0/0.1")
    stage.lose("spare/policy/0.1")
    stage.send("r0", 1, budget_ms=5000)
    assert ran_at(stage) == {}
    stage.worker("spare/policy/0.2", "policy")
    assert ran_at(stage) == {1: "spare/policy"}


def test_a_server_that_dies_before_it_was_ever_warm_has_failed_too() -> None:
    stage = planned(warm={replica: model for replica, model in WORKERS.items() if replica != "gpu1"})
    assert isinstance(stage.greet("s0", "sort"), m.Refused)
    stage.core.on_lost(stage.now_s, "gpu1/0.1", "ended with exit code 1")
    stage.settle()
    assert isinstance(stage.greet("s0", "sort"), m.Welcome)
    stage.send("s0", 1)
    assert ran_at(stage) == {1: "spare/policy"}
