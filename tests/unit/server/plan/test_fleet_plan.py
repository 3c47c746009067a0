"""The schedule of a fleet arrives as it was sent, and new servers find a node."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from rosa_contract.errors import CodecError
from rosa_server.plan.change import Stage
from rosa_server.plan.fleet_plan import MAX_PLAN_BYTES, FleetPlan, plain, plan_bytes, plan_from
from rosa_server.plan.nodes import NoRoom, housed
from rosa_server.plan.peer_codec import decode_peer, encode_peer
from rosa_server.plan.peering import PeerPlan
from rosa_server.plan.placement import Phase, Placement, Replica
from rosa_server.timing.decoding import DecodeCost
from tests.unit.server.serving.core.forwarding.pair import HOME, SERVER_ON
from tests.unit.server.serving.core.planned import PLACEMENT

FULL = replace(
    PLACEMENT.replicas["gpu0"],
    service_ms={1: 10.5, 4: 20.0},
    mixed_ms={"system1": {2: 3.5}},
    prefill_ms={"system1": 2.0},
    decoding=DecodeCost(1.5, 2.0),
    pool="all",
)
PHASES = {"pick/0": {"system1": Phase(0.4, 0.1)}}
RICH = replace(PLACEMENT, replicas={**PLACEMENT.replicas, "gpu0": FULL}, phases=PHASES, epoch=7)
PLAN = FleetPlan(RICH, SERVER_ON, HOME, ("pick/1",), {"schema": 4, "servers": [{"id": "gpu0"}]}, "/plan.json")


def test_a_plan_arrives_as_it_was_sent_over_a_link_and_from_a_disk() -> None:
    over = decode_peer(encode_peer(PeerPlan(PLAN)))
    assert isinstance(over, PeerPlan)
    for found in (over.plan, plan_from(plan_bytes(PLAN))):
        assert found.placement == RICH and found.epoch == 7
        assert plain(found) == plain(PLAN)
    assert PLAN.follows(PLAN).epoch == 8


def without(*path: str) -> Callable[[Any], None]:
    def change(content: Any) -> None:
        for name in path[:-1]:
            content = content[name]
        del content[path[-1]]

    return change


def changed(value: Any, *path: str) -> Callable[[Any], None]:
    def change(content: Any) -> None:
        for name in path[:-1]:
            content = content[name]
        content[path[-1]] = value

    return change


WRONG = [
    without("server_on", "gpu0"),
    without("home", "sort/0"),
    without("placement", "replicas", "gpu1"),
    without("placement"),
    changed(None, "placement", "routes"),
    changed(-1, "placement", "epoch"),
    changed("gpu9", "placement", "routes", "pick/0", "system1"),
    changed("gpu9", "placement", "replicas", "gpu0", "id"),
    changed(0, "placement", "replicas", "gpu0", "workers"),
    changed({"x": 1.0}, "placement", "replicas", "gpu0", "service_ms"),
    changed(["gpu9"], "placement", "standbys", "gpu0"),
    changed({"system1": "gpu0"}, "placement", "routes", "pick/first"),
    changed(1, "more"),
    changed({"deep": json.loads("[" * 400 + "]" * 400)}, "schedule"),
]


@pytest.mark.parametrize("change", WRONG)
def test_a_plan_that_leads_nowhere_is_refused(change: Callable[[Any], None]) -> None:
    content = json.loads(plan_bytes(PLAN))
    change(content)
    with pytest.raises(CodecError, match="plan"):
        plan_from(json.dumps(content).encode())


@pytest.mark.parametrize("raw", [b"", b"[]", b"{", b"[" * 100_000, b"\xff", b" " * (MAX_PLAN_BYTES + 1)])
def test_what_is_no_plan_is_refused(raw: bytes) -> None:
    with pytest.raises(CodecError):
        plan_from(raw)


# -- where new servers go ----------------------------------------------------------------------------------------------


def stage(placement: Placement, *starts: str) -> Stage:
    return Stage("", placement, starts=starts)


def more(*new: Replica, **changes: Any) -> Placement:
    return replace(PLACEMENT, replicas={**PLACEMENT.replicas, **{one.id: one for one in new}}, **changes)


GUARD, POLICY = Replica("gpu3", "guard", "gpu3"), Replica("gpu4", "policy", "gpu4")
ROOM = {"a": 9, "b": 9}


def test_a_new_server_goes_where_its_weights_are_and_then_where_fewer_servers_are() -> None:
    stages = [stage(more(GUARD), "gpu3"), stage(more(GUARD, POLICY), "gpu4")]
    found = housed(stages, SERVER_ON, {**ROOM, "c": 9})
    assert found[0]["gpu3"] == "a", "c lacks the weights; a and b have as many servers"
    assert found[1]["gpu4"] == "b" and set(SERVER_ON) <= found[1].keys()
    assert housed(stages[:1], SERVER_ON, {**ROOM, "a": 0})[0]["gpu3"] == "b"


def test_a_new_server_stays_away_from_what_stands_in_for_it_and_a_standby_from_what_it_covers() -> None:
    covered = more(POLICY, standbys={**PLACEMENT.standbys, "gpu4": ("spare/policy",)})
    assert housed([stage(covered, "gpu4")], SERVER_ON, ROOM)[0]["gpu4"] == "b"
    spare = Replica("new/policy", "policy", "new", standby=True)
    twice = more(spare, standbys={**PLACEMENT.standbys, "gpu0": ("new/policy",)})
    assert housed([stage(twice, "new/policy")], SERVER_ON, ROOM)[0]["new"] == "b"


def test_a_new_server_stays_away_from_another_of_its_standby() -> None:
    """A lost node would lose both, and the standby stands in for one."""
    spare = Replica("far/policy", "policy", "far", standby=True)
    on = {**SERVER_ON, "far": "c"}
    usual = housed([stage(more(POLICY, spare), "gpu4")], on, ROOM)[0]["gpu4"]
    there = next(one.id for one in PLACEMENT.replicas.values() if on[one.server] == usual)
    both = more(POLICY, spare, standbys={there: ("far/policy",), "gpu4": ("far/policy",)})
    assert {usual, housed([stage(both, "gpu4")], on, ROOM)[0]["gpu4"]} == {"a", "b"}


def test_a_gpu_that_a_stage_before_has_given_back_is_free_and_without_one_it_is_refused() -> None:
    less = replace(PLACEMENT, replicas={n: one for n, one in PLACEMENT.replicas.items() if n != "gpu1"})
    then = replace(less, replicas={**less.replicas, "gpu4": POLICY})
    assert housed([stage(less), stage(then, "gpu4")], SERVER_ON, {"a": 0, "b": 0})[-1]["gpu4"] == "b"
    with pytest.raises(NoRoom, match="gpu4"):
        housed([stage(more(POLICY), "gpu4")], SERVER_ON, {"a": 0, "b": 0})
