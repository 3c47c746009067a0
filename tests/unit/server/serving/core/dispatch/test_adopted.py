"""Another schedule takes the place of the one that runs: nobody loses a call, a slot or a standby."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rosa_contract.wire import messages as m
from rosa_server.plan.admission import NoAdmission
from rosa_server.plan.placement import Placement, Replica
from tests.unit.server.serving.core.planned import PLACEMENT, Door, full, ran_at
from tests.unit.server.serving.core.stage import Stage

GPU3 = Replica("gpu3", "policy", "gpu3", batch=2, deadline_aware=False)
ROUTES = dict(PLACEMENT.routes or {})
WITH_GPU3 = replace(PLACEMENT, replicas={**PLACEMENT.replicas, "gpu3": GPU3})
MOVED = replace(WITH_GPU3, routes={**ROUTES, "pick/1": {**ROUTES["pick/1"], "system1": "gpu3"}})


def adopt(stage: Stage, placement: Placement) -> None:
    stage.core.adopt(stage.now_s, placement, NoAdmission())
    stage.settle()


def statuses(stage: Stage) -> dict[int, str]:
    found = {answer.call.request_id: answer.status for answer in stage.answers}
    assert len(found) == len(stage.answers), "one answer each"
    return found


def test_a_stream_moves_to_a_server_that_was_started_meanwhile_and_loses_no_call() -> None:
    stage = full()
    adopt(stage, WITH_GPU3)
    stage.worker("gpu3/0.1")
    stage.send("r0", 1, budget_ms=50_000)
    stage.send("r1", 2, budget_ms=50_000)
    assert ran_at(stage) == {1: "gpu0"}, "the second waits for the same server"
    adopt(stage, MOVED)
    assert ran_at(stage) == {1: "gpu0", 2: "gpu3"}, "what waits moves with its stream"
    stage.finish("gpu0/0.1")
    stage.finish("gpu3/0.1")
    assert statuses(stage) == {1: "ok", 2: "ok"}


def test_servers_that_share_a_queue_from_now_on_take_what_waits_together() -> None:
    stage = full()
    stage.send("r0", 1, budget_ms=50_000)
    stage.send("r1", 2, budget_ms=50_000)
    assert ran_at(stage) == {1: "gpu0"}
    pooled = {name: replace(PLACEMENT.replicas[name], pool="policy system1") for name in ("gpu0", "gpu1")}
    adopt(stage, replace(PLACEMENT, replicas={**PLACEMENT.replicas, **pooled}))
    assert ran_at(stage)[2] == "gpu1"
    stage.finish("gpu0/0.1")
    stage.finish("gpu1/0.1")
    assert statuses(stage) == {1: "ok", 2: "ok"}
    adopt(stage, PLACEMENT)
    stage.send("s0", 4, budget_ms=50_000)
    assert ran_at(stage)[4] == "gpu1", "and by itself again"


def test_a_server_that_is_not_in_the_new_schedule_leaves_when_its_worker_has_ended() -> None:
    stage = full()
    adopt(stage, WITH_GPU3)
    stage.worker("gpu3/0.1")
    routes = {**ROUTES, "sort/0": {"system1": "gpu3"}}
    adopt(stage, replace(WITH_GPU3, routes=routes))
    stage.core.retire(stage.now_s, "gpu1/0.1", "reschedule")
    stage.lose("gpu1/0.1")
    replicas = {name: one for name, one in WITH_GPU3.replicas.items() if name != "gpu1"}
    adopt(stage, replace(WITH_GPU3, routes=routes, replicas=replicas))
    stage.lose("gpu0/0.1")
    stage.send("r0", 1, budget_ms=50_000)
    stage.send("s0", 2, budget_ms=50_000)
    assert ran_at(stage) == {1: "spare/policy", 2: "gpu3"}, "the standby is free for who fails"
    stage.wait(3.0)
    assert stage.core.warm_workers() == {"gpu0": 0, "gpu2": 1, "gpu3": 1, "spare/policy": 1, "spare/guard": 1}


def test_a_server_that_changes_its_model_batches_by_the_times_of_the_new_one() -> None:
    stage = full()
    guard = Replica("gpu3", "guard", "gpu3", batch=4, service_ms={1: 20.0, 2: 22.0, 4: 25.0})
    adopt(stage, replace(PLACEMENT, replicas={**PLACEMENT.replicas, "gpu3": guard}))
    policy = Replica("gpu3", "policy", "gpu3", batch=2, service_ms={1: 200.0, 2: 390.0})
    routes = {name: {**ROUTES[name], "system1": "gpu3"} for name in ("pick/0", "pick/1")}
    adopt(stage, Placement({**PLACEMENT.replicas, "gpu3": policy}, {**ROUTES, **routes}, PLACEMENT.rates_hz))
    stage.send("r0", 1)
    stage.send("r1", 2)
    stage.worker("gpu3/0.1")
    [batch, *_] = stage.held["gpu3/0.1"]
    assert len(batch.calls) == 1, "two together would be late for their 300 ms"


def test_a_standby_that_stands_in_goes_on_doing_so() -> None:
    stage = full()
    stage.lose("gpu0/0.1")
    adopt(stage, WITH_GPU3)
    stage.send("r0", 1, budget_ms=50_000)
    assert ran_at(stage) == {1: "spare/policy"}
    stage.worker("gpu0/0.2")
    stage.finish("spare/policy/0.1")
    stage.send("r0", 2, budget_ms=50_000)
    assert ran_at(stage)[2] == "gpu0"


def test_robots_keep_their_slots_and_free_ones_may_come_and_go() -> None:
    stage = full()
    stage.leave("r1")
    assert stage.core.router.taken() == {"pick/0", "sort/0"}
    routes = {"pick/0": ROUTES["pick/0"], "sort/0": ROUTES["sort/0"], "sort/1": {"system1": "gpu0"}}
    adopt(stage, replace(PLACEMENT, routes=routes))
    refused = stage.greet("r1")
    assert isinstance(refused, m.Refused) and "0 planned" not in refused.reason
    assert isinstance(stage.greet("s1", "sort"), m.Welcome)
    with pytest.raises(ValueError, match="lose their slots sort/"):
        adopt(stage, replace(PLACEMENT, routes={"pick/0": ROUTES["pick/0"]}))


def test_while_it_is_planned_no_slot_is_added_or_removed() -> None:
    door = Door()
    stage = full(door)
    assert isinstance(stage.greet("r2"), m.Welcome) and door.inside
    stage.core.router.freeze("a rescheduling is at work")
    stage.leave("r2")
    stage.leave("r1")
    assert "pick/2" in (stage.core.router.placement.routes or {}) and door.inside
    assert isinstance(stage.greet("r3"), m.Welcome), "those that there are may be taken"
    assert isinstance(stage.greet("r4"), m.Welcome)
    refused = stage.greet("r5")
    assert isinstance(refused, m.Refused) and "at work" in refused.reason
    answer = stage.core.add_slot(stage.now_s, "pick", False)
    assert isinstance(answer, m.Refused) and answer.reason == "a rescheduling is at work"


def test_robots_are_told_the_rates_of_the_new_schedule_once() -> None:
    stage = full()
    before = len(stage.said)
    rates = {**PLACEMENT.rates_hz, "pick": {"system1": 1.0, "safety": 2.0}}
    adopt(stage, replace(PLACEMENT, rates_hz=rates))
    told = [say.connection for say in stage.said[before:] if isinstance(say.message, m.Welcome)]
    assert sorted(told) == [b"r0", b"r1"]


def test_a_worker_of_a_server_that_the_new_schedule_lacks_is_ended_and_its_call_runs_elsewhere() -> None:
    stage = full()
    stage.send("s0", 1, budget_ms=50_000)
    routes = {**ROUTES, "sort/0": {"system1": "gpu0"}}
    replicas = {name: one for name, one in PLACEMENT.replicas.items() if name != "gpu1"}
    adopt(stage, replace(PLACEMENT, routes=routes, replicas=replicas))
    assert [kill.worker_id for kill in stage.killed] == ["gpu1/0.1"]
    stage.lose("gpu1/0.1")  # as the cluster says it, later
    assert ran_at(stage) == {1: "spare/policy"} or ran_at(stage) == {1: "gpu0"}
