"""The watch over several gateways notices what none of them may do, also what their protocol does not let happen."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from rosa_server.plan.fleet_plan import FleetPlan
from rosa_server.serving.core.forwarding.invariants import NO_OLD_EPOCH, ONE_SCHEDULE, Fleet
from tests.unit.server.serving.core.forwarding.pair import HOME, SERVER_ON
from tests.unit.server.serving.core.planned import PLACEMENT

LACKS = {name: one for name, one in PLACEMENT.replicas.items() if name != "gpu1"}


@dataclass
class Answer:
    node: str = "b"
    replica: str = "gpu1"
    started: int = 0
    epoch: int = 0


def plan(epoch: int, lacks: bool = False) -> FleetPlan:
    placement = replace(PLACEMENT, epoch=epoch, replicas=LACKS if lacks else PLACEMENT.replicas)
    return FleetPlan(placement, SERVER_ON, HOME)


def fleet(*, lacks: int = 1) -> Fleet:
    """a goes from schedule 0 to 2, and b stays at 0. gpu1 is not in schedule `lacks`."""
    made = Fleet()
    for epoch in range(3):
        assert not list(made.runs("a", plan(epoch, lacks == epoch)))
    assert not list(made.runs("b", made.schedules[0]))
    return made


@pytest.mark.parametrize(
    ("lacks", "epoch", "broken"), [(9, 2, False), (1, 2, True), (2, 2, True), (2, 1, False)]
)
def test_an_answer_counts_while_its_replica_is_the_same_in_every_schedule_that_its_asker_went_through(
    lacks: int, epoch: int, broken: bool
) -> None:
    rules = [rule for rule, _ in fleet(lacks=lacks).ran("a", epoch, Answer())]
    assert rules == [NO_OLD_EPOCH] * broken


def test_no_answer_counts_of_a_worker_that_was_there_before_its_replica_came_back() -> None:
    made = fleet()
    for epoch in (1, 2):
        assert not list(made.runs("b", made.schedules[epoch]))
    assert [rule for rule, _ in made.ran("a", 2, Answer(started=0, epoch=2))] == [NO_OLD_EPOCH]
    assert not list(made.ran("a", 2, Answer(started=2, epoch=2)))


def test_an_answer_of_a_newer_schedule_counts_where_its_replica_is_the_same_in_both() -> None:
    assert not list(fleet(lacks=1).ran("b", 0, Answer("a", "gpu0", 0, 2)))
    made = fleet(lacks=9)
    moved = replace(made.schedules[2], server_on={**SERVER_ON, "gpu1": "a"})
    made.schedules[2] = moved
    assert [rule for rule, _ in made.ran("b", 0, Answer("a", "gpu1", 2, 2))] == [NO_OLD_EPOCH]


def test_what_another_gateway_runs_on_a_server_of_the_same_queue_counts_while_the_one_that_was_asked_is_the_same() -> (
    None
):
    """That gateway, of an older schedule, does so with its own robots' calls, too."""
    made = fleet(lacks=2)
    assert not list(made.ran("a", 2, Answer(replica="gpu1", epoch=0), asked="gpu0"))
    assert [rule for rule, _ in made.ran("a", 2, Answer(replica="gpu0", epoch=0), asked="gpu1")] == [
        NO_OLD_EPOCH
    ]


def test_no_answer_counts_of_another_model_than_that_of_the_replica_that_was_asked() -> None:
    made = fleet(lacks=9)
    replicas = dict(made.schedules[0].placement.replicas)
    replicas["gpu1"] = replace(replicas["gpu1"], model="another")
    made.schedules[0] = replace(
        made.schedules[0], placement=replace(made.schedules[0].placement, replicas=replicas)
    )
    assert [rule for rule, _ in made.ran("a", 2, Answer(replica="gpu1", epoch=0), asked="gpu0")] == [
        NO_OLD_EPOCH
    ]


def test_one_number_is_that_of_one_schedule_and_a_gateway_goes_to_later_ones_alone() -> None:
    made = fleet()
    assert [rule for rule, _ in made.runs("b", plan(1))] == [ONE_SCHEDULE], "another one with the number 1"
    assert [rule for rule, _ in made.runs("a", made.schedules[2])] == [ONE_SCHEDULE]
