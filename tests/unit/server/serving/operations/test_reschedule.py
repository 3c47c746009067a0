"""A rescheduling is carried out stage by stage; wherever it ends, every stream has a server."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from rosa_contract.errors import ConfigError
from rosa_contract.wire import messages as m
from rosa_contract.wire.watching import Order
from rosa_server.plan.admission import AdmissionControl, NoAdmission
from rosa_server.plan.change import Change, Stage
from rosa_server.plan.placement import Placement, Replica
from rosa_server.serving.base.log import LOGGER
from rosa_server.serving.base.worker_spec import WorkerSpec
from rosa_server.serving.core.workers.comparing import WorkerTally
from rosa_server.serving.edge.cluster import ClusterError
from rosa_server.serving.operations import reschedule
from rosa_server.serving.operations.live_state import LiveState
from rosa_server.serving.operations.names import (
    CANCEL,
    DRAIN,
    RESCHEDULE,
    RESCHEDULE_DRY_RUN,
    SCHEDULE,
)
from rosa_server.serving.operations.operations import Operations
from rosa_server.serving.operations.order import Site
from tests.unit.server.serving.core.planned import PLACEMENT, Door, full, ran_at

PATIENCE_S = 60.0
ROUTES = dict(PLACEMENT.routes or {})
GPU3 = Replica("gpu3", "policy", "gpu3", batch=2, deadline_aware=False)
LOWER = replace(PLACEMENT, rates_hz={**PLACEMENT.rates_hz, "pick": {"system1": 1.0, "safety": 2.0}})
STARTED = replace(LOWER, replicas={**PLACEMENT.replicas, "gpu3": GPU3})
MOVED = replace(STARTED, routes={**ROUTES, "sort/0": {"system1": "gpu3"}})
STOPPED = replace(MOVED, replicas={name: one for name, one in MOVED.replicas.items() if name != "gpu1"})
ENDED = replace(STOPPED, rates_hz=PLACEMENT.rates_hz)
AFTER = NoAdmission("as the new schedule says")
STAGES = (
    Stage("robots act more slowly", LOWER),
    Stage("gpu3 loads policy", STARTED, starts=("gpu3",)),
    Stage("1 stream moves to gpu3", MOVED, moves=True, after="moved"),
    Stage("gpu1 unloads policy", STOPPED, stops=("gpu1",), after="stopped"),
    Stage("all as planned", ENDED, after="ended"),
)
CHANGE = Change(STAGES, AFTER, {"file": "new.json"}, "another server serves sort")


class Workers:
    """A cluster that does what the test says."""

    workers_bind = misconfigured = ""

    def __init__(self) -> None:
        self.held: dict[str, bool] = {}
        self.added: list[str] = []
        self.dropped: list[str] = []
        self.full: Exception | None = None
        self.specs: dict[str, WorkerSpec] = {}  # of those that were added

    def change(self, name: str, change: Callable[[WorkerSpec], WorkerSpec]) -> None:
        self.specs[name] = change(WorkerSpec(name, "policy", "flow", "", options={"weights": "/old"}))

    def hold(self, name: str, held: bool) -> None:
        self.held[name] = held

    def add(self, placement: Placement, replicas: Collection[str]) -> list[str]:
        if self.full is not None:
            raise self.full
        assert set(replicas) <= placement.replicas.keys()
        self.added += [f"{name}/0" for name in replicas]
        return [f"{name}/0" for name in replicas]

    def drop(self, name: str) -> None:
        self.dropped.append(name)

    def kill(self, worker_id: str, reason: str) -> None:
        raise AssertionError("nothing has to be killed")


class Plans:
    """Plans at once, or when the test lets it."""

    def __init__(self) -> None:
        self.found: Change | Exception = CHANGE
        self.may = threading.Event()
        self.may.set()
        self.at: list[str] = []

    def prepare(self, placement: Placement, taken: Collection[str]) -> Callable[[str], Change]:
        assert placement is PLACEMENT and set(taken) == {"pick/0", "pick/1", "sort/0"}
        return self._plan

    def _plan(self, path: str) -> Change:
        assert path == "/new.json" and self.may.wait(PATIENCE_S)
        if isinstance(self.found, Exception):
            raise self.found
        return self.found

    def reached(self, stage: Stage, admission: AdmissionControl) -> None:
        self.at.append(stage.after)


class Office:
    def __init__(self) -> None:
        self.door = Door()
        self.stage, self.cluster, self.plans = full(self.door), Workers(), Plans()
        self.told: list[tuple[str, str]] = []
        self.lines: list[str] = []
        self.about: Mapping[str, Any] = {}
        self.drained: list[str] = []
        self.state = LiveState()
        self.operations = Operations(self.site(self.plans))

    def site(self, planner: Plans | None) -> Site:
        cluster: Any = self.cluster
        drained, count = self.drained.append, lambda step: None
        return Site(self.stage.core, cluster, drained, count, self, planner, self.state)

    def going(self, order: Order, words: str) -> None:
        self.lines.append(words)

    def rescheduled(self, about: Mapping[str, Any]) -> None:
        self.about = about

    def compare(self, workers: Sequence[str]) -> Mapping[str, WorkerTally]:
        raise AssertionError("nobody asked for it")

    def obeyed(self, order: Order, cause: str, words: str) -> None:
        self.told.append((order.what, cause))

    def order(self, what: str, target: str = SCHEDULE, value: str = "/new.json") -> None:
        self.step(Order(b"", 1, what, target, value, "me"))

    def step(self, *orders: Order, lost: tuple[str, ...] = ()) -> None:
        self.operations.step(self.stage.now_s, orders, dict.fromkeys(lost, "ended by SIGKILL"))
        self.stage.settle()

    def doing(self) -> str:
        (one,) = self.operations.at_work(self.stage.now_s)["operations"]
        return str(one["doing"])

    def run_until(self, words: str) -> None:
        """Until it waits for this: the step after the one that reached the stage has begun with it."""
        for _ in range(10_000):
            reached = words in self.doing()
            self.step()
            if reached:
                return
            threading.Event().wait(0.005)
        raise AssertionError(f"{self.doing()!r} instead of {words!r}")

    def run_to_end(self) -> None:
        for _ in range(10_000):
            if not self.operations.at_work(self.stage.now_s)["operations"]:
                return
            threading.Event().wait(0.005)
            self.step()
        raise AssertionError(self.doing())

    @property
    def placement(self) -> Placement:
        """Whatever its epoch is: that rises with each stage."""
        return replace(self.stage.core.router.placement, epoch=0)


@pytest.fixture
def office() -> Office:
    return Office()


def test_it_is_carried_out_stage_by_stage_and_loses_no_call(office: Office) -> None:
    office.stage.send("s0", 1, budget_ms=50_000)
    office.order(RESCHEDULE)
    office.run_until("gpu3 loads")
    assert office.cluster.added == ["gpu3/0"] and office.placement == STARTED
    assert (office.placement.routes or {})["sort/0"] == {"system1": "gpu1"}, "nobody moves before it is warm"
    office.stage.worker("gpu3/0.1")
    office.step()
    office.run_until("gpu1 unloads")
    office.stage.send("s0", 2, budget_ms=50_000)
    assert ran_at(office.stage) == {1: "gpu1", 2: "gpu3"}
    for _ in range(3):
        office.step()
    assert not office.drained, "it still runs a call"
    office.stage.finish("gpu1/0.1")
    office.step()
    assert office.drained == ["gpu1/0.1"] and office.cluster.held == {"gpu1/0": True}
    office.stage.lose("gpu1/0.1")
    office.run_to_end()
    assert office.told == [(RESCHEDULE, "")] and office.plans.at == ["ended"]
    assert office.placement == ENDED and office.stage.core.router.admission is AFTER
    assert office.stage.core.router.placement.epoch >= 3, "one for each stage"
    assert office.cluster.dropped == ["gpu1/0"] and office.about == {"file": "new.json"}
    office.stage.finish("gpu3/0.1")
    assert office.stage.count() == {"ok": 2}
    assert office.lines[0].startswith("begun") and "3. 1 stream moves to gpu3" in office.lines
    assert office.lines[-1] == "5 of 5 done: all as planned"


@pytest.mark.parametrize("behind", [(), ("gpu1/0",)], ids=["all", "not all"])
def test_a_new_server_begins_with_the_weights_that_were_rolled_out_to_all_others(
    office: Office, behind: tuple[str, ...]
) -> None:
    names = {"gpu0/0", "gpu1/0", "spare/policy/0"} - set(behind)
    office.state.weights = dict.fromkeys(names, "/new")
    office.order(RESCHEDULE)
    office.run_until("gpu3 loads")
    assert office.cluster.added == ["gpu3/0"]
    begins_with = {name: spec.options["weights"] for name, spec in office.cluster.specs.items()}
    assert begins_with == ({} if behind else {"gpu3/0": "/new"})
    assert office.state.weights.get("gpu3/0", "") == ("" if behind else "/new"), "a restart does so, too"


def test_a_dry_run_says_all_stages_and_changes_nothing(office: Office) -> None:
    office.order(RESCHEDULE_DRY_RUN)
    office.run_to_end()
    assert office.told == [(RESCHEDULE_DRY_RUN, "")] and office.placement == PLACEMENT
    assert [line for line in office.lines if line[0].isdigit()] == [
        f"{number}. {stage.words}" for number, stage in enumerate(STAGES, start=1)
    ]
    assert isinstance(office.stage.greet("r2"), m.Welcome), "further robots are admitted again"


def test_while_it_is_planned_robots_are_served_and_none_beyond_the_slots_is_admitted(office: Office) -> None:
    office.plans.may.clear()
    office.order(RESCHEDULE)
    office.run_until("being planned")
    refused = office.stage.greet("r2")
    assert isinstance(refused, m.Refused) and "at work" in refused.reason
    office.order(DRAIN, "gpu0", "")
    assert office.told == [(DRAIN, "busy")], "nothing else is at work meanwhile"
    office.order(CANCEL)
    office.plans.may.set()
    office.run_to_end()
    assert office.told[-1] == (RESCHEDULE, "cancelled") and office.placement == PLACEMENT
    assert isinstance(office.stage.greet("r2"), m.Welcome)


def test_cancelled_before_anybody_moved_all_is_as_it_was(office: Office) -> None:
    office.order(RESCHEDULE)
    office.run_until("gpu3 loads")
    office.order(CANCEL)
    office.run_to_end()
    assert office.told[-1] == (RESCHEDULE, "cancelled") and office.cluster.dropped == ["gpu3/0"]
    assert office.placement == PLACEMENT and office.stage.core.router.admission is office.door
    assert not office.plans.at, "the planner's beginning is what it was"
    assert isinstance(office.stage.greet("r2"), m.Welcome) and office.door.inside
    office.stage.leave("r2")
    assert not office.door.inside, "its slot goes with it, as before"


def test_a_server_that_warmed_up_too_late_is_ended_when_all_goes_back(office: Office) -> None:
    office.order(RESCHEDULE)
    office.run_until("gpu3 loads")
    office.stage.worker("gpu3/0.1")
    office.order(CANCEL)
    office.run_to_end()
    assert [kill.worker_id for kill in office.stage.killed] == ["gpu3/0.1"]
    assert "gpu3" not in office.stage.core.warm_workers()


@pytest.mark.parametrize("late", [False, True])
def test_a_server_that_does_not_get_warm_leaves_all_as_it_was(
    office: Office, late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reschedule, "WARMS_S", 2.0)
    office.order(RESCHEDULE)
    office.run_until("gpu3 loads")
    office.stage.now_s += 3.0 if late else 0.0
    office.step(lost=() if late else ("gpu3/0.1",))
    assert office.told == [(RESCHEDULE, "not_warm")] and office.placement == PLACEMENT
    assert office.cluster.dropped == ["gpu3/0"]


def test_cancelled_after_streams_moved_it_stops_between_two_stages(office: Office) -> None:
    office.order(RESCHEDULE)
    office.run_until("gpu3 loads")
    office.stage.worker("gpu3/0.1")
    office.step()
    office.run_until("gpu1 unloads")
    office.order(CANCEL)
    office.step()
    office.stage.lose("gpu1/0.1")  # the stage that is at work is ended
    office.run_to_end()
    assert office.told[-1] == (RESCHEDULE, "cancelled") and office.plans.at == ["stopped"]
    assert office.placement == STOPPED and office.cluster.dropped == ["gpu1/0"]
    office.stage.send("s0", 1, budget_ms=50_000)
    assert ran_at(office.stage) == {1: "gpu3"}


def test_where_there_is_no_gpu_for_a_new_server_nothing_changes(office: Office) -> None:
    office.cluster.full = ClusterError("not_here", "these workers were started without a factory file")
    office.order(RESCHEDULE)
    office.run_to_end()
    assert office.told == [(RESCHEDULE, "not_here")] and office.placement == PLACEMENT


def test_a_robot_that_took_a_slot_which_is_to_go_stops_it(office: Office) -> None:
    office.stage.leave("s0")
    less = {slot: routes for slot, routes in ROUTES.items() if slot != "sort/0"}
    stages = (Stage("one slot less", replace(PLACEMENT, routes=less)),)
    office.plans.found = replace(CHANGE, stages=stages)
    office.plans.may.clear()
    office.plans.prepare = lambda placement, taken: office.plans._plan  # type: ignore[method-assign]
    office.order(RESCHEDULE)
    assert isinstance(office.stage.greet("s0", "sort"), m.Welcome)
    office.plans.may.set()
    office.run_to_end()
    assert office.told == [(RESCHEDULE, "robots_left_over")] and office.placement == PLACEMENT


SPARE = ("spare/policy", "spare/guard")
WITHOUT_SPARE = replace(
    PLACEMENT,
    replicas={name: one for name, one in PLACEMENT.replicas.items() if one.server != "spare"},
    routes={slot: routes for slot, routes in ROUTES.items() if slot != "sort/0"},
    standbys={},
)
UNLOADS_FIRST = (
    Stage("spare unloads", WITHOUT_SPARE, stops=SPARE, after="unloaded"),
    Stage("all as planned", WITHOUT_SPARE, after="ended"),
)


@pytest.fixture
def unloading(office: Office) -> Office:
    """The first stage ends a server, and its workers take their time."""
    office.stage.leave("s0")
    office.plans.found = replace(CHANGE, stages=UNLOADS_FIRST)
    office.plans.prepare = lambda placement, taken: office.plans._plan  # type: ignore[method-assign]
    office.order(RESCHEDULE)
    office.run_until("spare unloads")
    return office


def test_slots_that_are_to_go_are_given_to_nobody_while_a_server_unloads(unloading: Office) -> None:
    """A robot that took one ended the server."""
    refused = unloading.stage.greet("s0", "sort")
    assert isinstance(refused, m.Refused) and "at work" in refused.reason
    assert unloading.placement.replicas == PLACEMENT.replicas, "its workers finish"
    for name in SPARE:
        unloading.stage.lose(f"{name}/0.1")
    unloading.run_to_end()
    assert unloading.told == [(RESCHEDULE, "")] and unloading.placement == WITHOUT_SPARE


def test_cancelled_after_a_server_has_ended_it_is_not_said_to_be_as_before(unloading: Office) -> None:
    unloading.order(CANCEL)
    for name in SPARE:
        unloading.stage.lose(f"{name}/0.1")
    unloading.run_to_end()
    assert unloading.told[-1] == (RESCHEDULE, "cancelled") and unloading.plans.at == ["unloaded"]
    assert unloading.placement == WITHOUT_SPARE and set(unloading.cluster.dropped) == {
        f"{one}/0" for one in SPARE
    }


def test_a_defect_of_ours_ends_the_operation_and_not_the_server(
    office: Office, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(stage: Stage, admission: AdmissionControl) -> None:
        raise ZeroDivisionError("a mistake of ours")

    office.plans.reached = fail  # type: ignore[method-assign]
    office.plans.found = replace(CHANGE, stages=(Stage("robots act more slowly", LOWER),))
    caplog.set_level("ERROR", LOGGER.name)
    office.order(RESCHEDULE)
    office.run_to_end()
    assert office.told == [(RESCHEDULE, "internal_error")]
    (line,) = [one for one in caplog.records if one.message == "operation_broke"]
    assert "in fail" in line.fields["traceback"]  # type: ignore[attr-defined]
    office.order(DRAIN, "gpu0", "")
    assert office.cluster.held == {"gpu0/0": True}, "it takes other orders"


def test_a_defect_of_ours_refuses_an_order(office: Office) -> None:
    def fail(placement: Placement, taken: Collection[str]) -> Callable[[str], Change]:
        raise ZeroDivisionError("a mistake of ours")

    office.plans.prepare = fail  # type: ignore[method-assign]
    office.order(RESCHEDULE)
    assert office.told == [(RESCHEDULE, "internal_error")]


def test_what_cannot_be_planned_is_refused_by_its_cause(office: Office) -> None:
    office.plans.found = ConfigError("/new.json", ["it is no schedule"])
    office.order(RESCHEDULE)
    office.run_to_end()
    assert office.told == [(RESCHEDULE, "invalid")]
    office.plans.found = ZeroDivisionError("a mistake of ours")
    office.order(RESCHEDULE)
    office.run_to_end()
    assert office.told[-1] == (RESCHEDULE, "bad_schedule"), "the server goes on"
    assert isinstance(office.stage.greet("r2"), m.Welcome)


def test_without_a_schedule_and_with_a_drained_server_it_is_refused(office: Office) -> None:
    office.order(DRAIN, "gpu0", "")
    office.stage.lose("gpu0/0.1")
    office.run_to_end()
    office.order(RESCHEDULE)
    assert office.told[-1] == (RESCHEDULE, "busy")
    office.operations = Operations(office.site(None))
    office.order(RESCHEDULE)
    assert office.told[-1] == (RESCHEDULE, "no_slots")
