"""A rescheduling of several gateways is carried out stage by stage; wherever it ends, every robot has a server."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from rosa_contract.errors import CausedError
from rosa_contract.wire import messages as m
from rosa_contract.wire.watching import Order
from rosa_server.plan.admission import AdmissionControl, NoAdmission
from rosa_server.plan.change import Change, Stage
from rosa_server.plan.peering import MAX_ROOM
from rosa_server.plan.placement import Placement, Replica
from rosa_server.serving.base.worker_spec import WorkerSpec
from rosa_server.serving.core.workers.comparing import WorkerTally
from rosa_server.serving.edge.cluster import ClusterError
from rosa_server.serving.operations.names import CANCEL, DRAIN, RESCHEDULE, RESCHEDULE_DRY_RUN, SCHEDULE
from rosa_server.serving.operations.operations import Operations
from rosa_server.serving.operations.order import Site
from tests.unit.server.serving.core.forwarding.pair import Node, Pair
from tests.unit.server.serving.core.planned import PLACEMENT
from tests.unit.server.serving.operations.test_reschedule import GPU3, LOWER, MOVED, ROUTES, STARTED

STOPPED = replace(MOVED, replicas={name: one for name, one in MOVED.replicas.items() if name != "gpu1"})
ENDED = replace(STOPPED, rates_hz=PLACEMENT.rates_hz)
STAGES = (
    Stage("robots act more slowly", LOWER, after="lower"),
    Stage("gpu3 loads policy", STARTED, starts=("gpu3",), after="started"),
    Stage("1 stream moves to gpu3", MOVED, moves=True, after="moved"),
    Stage("gpu1 unloads policy", STOPPED, stops=("gpu1",), after="stopped"),
    Stage("all as planned", ENDED, after="ended"),
)
CHANGE = Change(STAGES, NoAdmission("planned robots only"), {}, "another server serves sort")
LESS = replace(PLACEMENT, routes={s: each for s, each in (PLACEMENT.routes or {}).items() if s != "pick/1"})


class Gateway:
    """One gateway with its operations; its cluster starts workers when the test lets it."""

    workers_bind = misconfigured = ""

    def __init__(self, pair: Pair, node: Node, other: Callable[[], Gateway]) -> None:
        self.pair, self.node, self._other = pair, node, other
        self.way: Change = CHANGE
        self.taken: set[str] = set()
        self.full: CausedError | None = None
        self.free = MAX_ROOM
        self.added: list[str] = []
        self.dropped: list[str] = []
        self.orders: list[Order] = []
        self.told: list[tuple[str, str, str]] = []
        self.lines: list[str] = []
        self.learned_of: list[str] = []
        self.weights: dict[str, str] = {}  # of workers that were added
        cluster: Any = self
        site = Site(node.core, cluster, lambda worker_id: None, lambda step: None, self, self)
        self.state = site.state
        self.operations = Operations(site, node.core, self.tell)

    # -- its cluster
    def room(self) -> int:
        return self.free

    def add(self, placement: Placement, replicas: Collection[str]) -> list[str]:
        if self.full is not None:
            raise self.full
        assert placement.epoch == self.node.core.epoch
        self.added += [f"{name}/0" for name in replicas]
        return [f"{name}/0" for name in replicas]

    def drop(self, name: str) -> list[str]:
        self.dropped.append(name)
        return [f"{name}.1"]

    def hold(self, name: str, held: bool) -> None: ...

    def change(self, name: str, change: Callable[[WorkerSpec], WorkerSpec]) -> None:
        assert name in self.added, "the next life of one that runs"
        spec = change(WorkerSpec(name, "policy", "flow", "", options={"weights": "/old"}))
        self.weights[name] = spec.options["weights"]

    # -- its planner
    def prepare(self, placement: Placement, taken: Collection[str]) -> Callable[[str], Change]:
        assert not any(one.node for one in placement.replicas.values()), "it is whole"
        self.taken = set(taken)
        return lambda path: self.way

    def written(self, stage: Stage) -> Mapping[str, Any]:
        return {"after": stage.after}

    def learned(self, schedule: Mapping[str, Any], file: str) -> Mapping[str, Any]:
        self.learned_of.append(schedule["after"])
        return {"file": file}

    def reached(self, stage: Stage, admission: AdmissionControl) -> None:
        raise AssertionError("it learns of what runs as the others do")

    # -- whoever gave an order
    def going(self, order: Order, words: str) -> None:
        self.lines.append(words)

    def rescheduled(self, about: Mapping[str, Any]) -> None: ...

    def compare(self, workers: Sequence[str]) -> Mapping[str, WorkerTally]:
        return {}

    def compare_no_more(self, workers: Sequence[str]) -> None: ...

    def obeyed(self, order: Order, cause: str, words: str) -> None:
        self.told.append((order.what, cause, words))

    def tell(self, node: str, why: str) -> None:
        assert node == self._other().node.name
        self._other().orders.append(Order(b"@", 0, CANCEL, SCHEDULE, why, self.node.name))

    def step(self, lost: Mapping[str, str] | None = None) -> None:
        orders, self.orders = self.orders, []
        self.operations.step(self.pair.now_s, orders, lost)


class Two:
    """a and b, with a robot of each and one of `sort` at a, whose model is at b."""

    def __init__(self) -> None:
        self.pair = Pair()
        self.a = Gateway(self.pair, self.pair.a, lambda: self.b)
        self.b = Gateway(self.pair, self.pair.b, lambda: self.a)
        for node, robot, task in (
            (self.pair.a, "r0", "pick"),
            (self.pair.a, "s0", "sort"),
            (self.pair.b, "r1", "pick"),
        ):
            assert isinstance(self.pair.greet(node, robot, task), m.Welcome)
        self.wait(0.2)

    def wait(self, seconds: float) -> None:
        end_s = self.pair.now_s + seconds
        while self.pair.now_s < end_s:
            self.a.step()
            self.b.step()
            self.pair.wait(0.05)

    def order(
        self, at: Gateway, what: str = RESCHEDULE, target: str = SCHEDULE, value: str = "/new.json"
    ) -> None:
        at.orders.append(Order(b"", 1, what, target, value, "me"))
        self.wait(0.1)

    def until(self, done: Callable[[], object]) -> None:
        for _ in range(2000):
            if done():
                return
            threading.Event().wait(0.001)  # planning is a thread
            self.wait(0.05)
        raise AssertionError((self.a.operations.at_work(0.0), self.b.operations.at_work(0.0), self.a.told))

    def ended(self, at: Gateway, count: int = 1) -> tuple[str, str, str]:
        self.until(lambda: len(at.told) >= count)
        return at.told[-1]

    def placements(self) -> list[set[str]]:
        return [set(one.node.core.router.placement.replicas) for one in (self.a, self.b)]


@pytest.fixture
def two() -> Two:
    """Only b has a GPU for another server."""
    made = Two()
    made.a.free = 0
    made.wait(0.2)
    return made


def test_all_gateways_get_there_stage_by_stage_and_workers_follow_on_their_nodes(two: Two) -> None:
    two.order(two.a)
    two.until(lambda: two.a.added or two.b.added)
    assert two.a.taken == {"pick/0", "pick/1", "sort/0"}, "the slots of both homes"
    at = two.a if two.a.added else two.b
    assert at is two.b
    two.wait(1.0)
    assert two.a.learned_of[-1] == two.b.learned_of[-1] == "started", "nobody moves before it is warm"
    at.node.start(two.pair.now_s, "gpu3")
    two.until(lambda: two.b.learned_of[-1] == "moved")
    two.pair.ask(two.pair.a, "s0", 1, budget_ms=300.0)
    assert two.pair.b.held["gpu3/0.1"]
    moved_s = two.pair.now_s
    assert two.ended(two.a)[:2] == (RESCHEDULE, "")
    assert two.pair.now_s - moved_s > 0.75, "gpu1 ends when all that it was given has ended"
    assert two.placements() == [set(ENDED.replicas)] * 2 and two.b.dropped == ["gpu1/0"] and not two.a.dropped
    assert two.b.learned_of == ["lower", "started", "moved", "stopped", "ended"] == two.a.learned_of
    assert "2. gpu3 loads policy (gpu3 on node b)" in two.a.lines
    two.wait(0.3)
    two.b.way = replace(CHANGE, stages=(Stage("the same once more", ENDED, after="again"),))
    two.order(two.b)
    assert two.ended(two.b)[:2] == (RESCHEDULE, ""), "the next one may be ordered at any gateway"
    assert two.a.learned_of[-1] == "again"


def test_a_new_server_begins_with_the_weights_that_were_rolled_out_on_its_node(two: Two) -> None:
    two.b.state.weights = dict.fromkeys(two.b.operations._site.of_model("policy"), "/new")
    two.order(two.a)
    two.until(lambda: two.b.added)
    assert two.b.weights == {"gpu3/0": "/new"} and two.b.state.weights["gpu3/0"] == "/new"


def test_a_dry_run_says_all_stages_and_changes_nothing(two: Two) -> None:
    two.order(two.b, RESCHEDULE_DRY_RUN)
    assert two.ended(two.b) == (RESCHEDULE_DRY_RUN, "", "this would follow: another server serves sort")
    assert two.pair.a.core.epoch == two.pair.b.core.epoch == 0 and len(two.b.lines) == 1 + len(STAGES)


def test_while_one_gateway_changes_the_schedule_the_others_begin_nothing_else(two: Two) -> None:
    two.order(two.a)
    two.until(lambda: two.b.added)
    for what, target in ((DRAIN, "gpu2"), (RESCHEDULE, SCHEDULE)):
        two.order(two.b, what, target)
        assert two.b.told[-1][:2] == (what, "busy") and "node a" in two.b.told[-1][2]
    assert two.b.operations.at_work(0.0)["operations"][0]["by"] == "node a"


def test_it_waits_for_what_is_at_work_elsewhere_and_gives_up(two: Two) -> None:
    two.pair.ask(two.pair.b, "r1", 1, "safety", budget_ms=60_000.0)
    two.order(two.b, DRAIN, "gpu2")  # which still runs a call
    two.order(two.a)
    cause, words = two.ended(two.a)[1:]
    assert cause == "busy" and "node b works on servers" in words and "nothing has changed" in words
    assert two.pair.a.core.epoch == 0


def test_where_a_gateway_is_away_it_is_refused_by_name(two: Two) -> None:
    two.pair.cut = True
    two.wait(1.0)
    two.order(two.a)
    cause, words = two.ended(two.a)[1:]
    assert cause == "node_away" and "node b is not there" in words


@pytest.mark.parametrize("how", ["cancelled", "ended", "full"])
def test_what_does_not_start_on_another_node_leaves_all_as_it_was(two: Two, how: str) -> None:
    if how == "full":
        two.b.full = ClusterError("not_here", "there is no GPU")
    two.order(two.a)
    if how != "full":
        two.until(lambda: two.b.added)
    if how == "cancelled":
        two.order(two.a, CANCEL, SCHEDULE, "")
    elif how == "ended":
        two.b.step({"gpu3/0.1": "ended by SIGKILL"})
    cause, words = two.ended(two.a, 2)[1:] if how == "cancelled" else two.ended(two.a)[1:]
    why = {
        "cancelled": "it was cancelled",
        "ended": "gpu3/0.1 ended before it was warm",
        "full": "there is no GPU",
    }
    found = next(one for one in two.a.told if one[0] == RESCHEDULE)
    assert found[1] == "cancelled" and why[how] in found[2] and "as it was before" in found[2], (cause, words)
    two.wait(0.5)
    assert two.placements() == [set(PLACEMENT.replicas)] * 2
    assert two.b.dropped == ([] if how == "full" else ["gpu3/0"])


def test_cancelled_after_streams_moved_it_stays_between_two_stages(two: Two) -> None:
    two.order(two.a)
    two.until(lambda: two.b.added)
    two.b.node.start(two.pair.now_s, "gpu3")
    two.until(lambda: two.a.learned_of[-1] == "moved")
    two.order(two.a, CANCEL, SCHEDULE, "")
    two.until(lambda: any(one[0] == RESCHEDULE for one in two.a.told))
    found = next(one for one in two.a.told if one[0] == RESCHEDULE)
    assert found[1] == "cancelled" and "3 of 5" in found[2]
    two.wait(0.5)
    assert two.placements() == [set(MOVED.replicas)] * 2


@pytest.mark.parametrize("how", ["cancelled", "ended", "full"])
def test_what_does_not_start_after_streams_moved_leaves_the_schedule_and_is_started_when_it_is_ordered_again(
    two: Two, how: str
) -> None:
    at_gpu0 = {**ROUTES, "sort/0": {"system1": "gpu0"}}
    away, started = replace(PLACEMENT, routes=at_gpu0), replace(STARTED, routes=at_gpu0)
    starts = Stage("gpu3 loads policy", started, starts=("gpu3",), after="started")
    there = Stage("1 stream moves to gpu3", MOVED, moves=True, after="moved")
    two.a.way = replace(
        CHANGE, stages=(Stage("1 stream moves to gpu0", away, moves=True, after="away"), starts, there)
    )
    if how == "full":
        two.b.full = ClusterError("not_here", "there is no GPU")
    two.order(two.a)
    two.until(lambda: two.b.added or any(one[0] == RESCHEDULE for one in two.a.told))
    if how == "cancelled":
        two.order(two.a, CANCEL, SCHEDULE, "")
    elif how == "ended":
        two.b.step({"gpu3/0.1": "ended by SIGKILL"})
    two.until(lambda: any(one[0] == RESCHEDULE for one in two.a.told))
    found = next(one for one in two.a.told if one[0] == RESCHEDULE)
    assert found[1] == "cancelled" and "1 of 3 stages" in found[2] and "order it again" in found[2]
    two.wait(0.5)
    assert two.placements() == [set(PLACEMENT.replicas)] * 2 and two.a.learned_of[-1] == "away"
    assert two.b.dropped == ([] if how == "full" else ["gpu3/0"])
    two.b.full, count = None, len(two.a.told)
    two.a.way = replace(CHANGE, stages=(starts, there))
    two.order(two.a)
    two.until(lambda: two.b.added and two.b.learned_of[-1] == "started")
    two.b.node.start(two.pair.now_s, "gpu3")
    assert two.ended(two.a, count + 1)[:2] == (RESCHEDULE, "")
    two.pair.ask(two.pair.a, "s0", 1, budget_ms=300.0)
    assert two.pair.b.held["gpu3/0.1"]


def test_a_server_that_ends_and_loads_another_model_has_not_failed_when_its_old_worker_is_gone(
    two: Two,
) -> None:
    left = {name: one for name, one in PLACEMENT.replicas.items() if name != "gpu1"}
    away = replace(PLACEMENT, routes={**ROUTES, "sort/0": {"system1": "gpu0"}})
    stopped = replace(away, replicas=left, standbys={**PLACEMENT.standbys, "gpu1": ()})
    other = replace(stopped, replicas={**left, "gpu1": Replica("gpu1", "guard", "gpu1")})
    two.a.way = replace(
        CHANGE,
        stages=(
            Stage("1 stream moves to gpu0", away, moves=True, after="away"),
            Stage("gpu1 unloads policy", stopped, stops=("gpu1",), after="stopped"),
            Stage("gpu1 loads guard", other, starts=("gpu1",), after="other"),
        ),
    )
    two.order(two.a)
    two.until(lambda: two.b.added)
    assert two.b.dropped == ["gpu1/0"] and two.b.added == ["gpu1/0"]
    two.b.step({"gpu1/0.1": "it is not in the new schedule"})
    two.wait(1.0)
    assert not two.a.told
    two.b.step({"gpu1/0.2": "ended by SIGKILL"})
    assert "gpu1/0.2 ended before it was warm" in two.ended(two.a)[2]


def test_a_defect_of_ours_keeps_no_other_gateway_from_the_next_change(two: Two) -> None:
    def fail(stage: Stage) -> Mapping[str, Any]:
        raise ZeroDivisionError("a mistake of ours")

    two.a.written = fail  # type: ignore[method-assign]
    two.order(two.a)
    assert two.ended(two.a)[:2] == (RESCHEDULE, "internal_error")
    two.wait(0.3)
    two.b.way = replace(CHANGE, stages=STAGES[:1])
    two.order(two.b)
    assert two.ended(two.b)[:2] == (RESCHEDULE, "")


def test_no_stream_moves_to_a_server_of_the_schedule_that_is_not_warm(two: Two) -> None:
    starts = Stage("gpu3 loads policy", STARTED, starts=("gpu3",), after="started")
    two.a.way = replace(CHANGE, stages=(starts,))
    two.order(two.a)
    two.until(lambda: two.b.added)
    two.b.node.start(two.pair.now_s, "gpu3")
    assert two.ended(two.a)[1] == ""
    two.b.node.core.on_lost(two.pair.now_s, "gpu3/0.1", "killed")
    two.a.way = replace(CHANGE, stages=(Stage("1 stream moves to gpu3", MOVED, moves=True, after="moved"),))
    two.order(two.a)
    two.wait(2.0)
    two.pair.ask(two.pair.a, "s0", 1, budget_ms=300.0)
    assert two.a.learned_of[-1] == "started" and two.pair.b.held["gpu1/0.1"]
    two.b.node.start(two.pair.now_s, "gpu3")
    assert two.ended(two.a, 2)[1] == "" and two.b.learned_of[-1] == "moved"


def test_no_node_has_a_gpu_for_a_new_server(two: Two) -> None:
    two.a.free = two.b.free = 0
    two.wait(0.3)
    two.order(two.a)
    cause, words = two.ended(two.a)[1:]
    assert cause == "too_few_gpus" and "gpu3" in words and two.pair.b.core.epoch == 0


def test_a_slot_that_is_to_go_is_closed_first_and_a_robot_that_has_it_stops_all() -> None:
    two = Two()
    stages = (Stage("one slot less", LESS, after="less"),)
    two.a.way = replace(CHANGE, stages=stages)
    two.order(two.a)
    assert two.ended(two.a)[1] == "robots_left_over", "the plan did not know of r1"
    two.wait(0.5)
    assert (
        "pick/1" in (two.pair.b.core.router.placement.routes or {})
        and not two.pair.b.core.succession.plan.closed
    )
    two.pair.b.core.on_robot(two.pair.now_s, b"r1", m.Bye())
    two.wait(0.5)
    two.order(two.a)
    assert two.ended(two.a, 2)[1] == ""
    assert "pick/1" not in (two.pair.b.core.router.placement.routes or {})
    assert two.a.lines[-1] == "2 of 2 done: one slot less" and GPU3.id not in two.placements()[0]
