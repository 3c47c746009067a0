"""A server that runs a schedule: slots, routes, standbys and robots that were not planned."""

from __future__ import annotations

from dataclasses import replace

from rosa_contract import messages as m
from rosa_server.serving.core.admission import Admitted
from rosa_server.serving.core.placement import Placement, Replica
from tests.unit.server.serving.core.stage import Stage, hello

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
    door: Door | None = None, *, warm: dict[str, str] = WORKERS, placement: Placement = PLACEMENT
) -> Stage:
    stage = Stage(factory=FACTORY, placement=placement, admission=door)
    for replica, model in warm.items():
        stage.worker(f"{replica}/0.1", model)
    return stage


def full(door: Door | None = None, placement: Placement = PLACEMENT) -> Stage:
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


def test_each_robot_takes_a_slot_and_its_calls_go_where_the_slot_is_routed() -> None:
    stage = full()
    stage.send("r0", 1)
    stage.send("r0", 2, "safety")
    stage.send("s0", 3)
    assert ran_at(stage) == {1: "gpu0", 2: "gpu2", 3: "gpu1"}


def test_a_robot_is_told_the_rates_that_it_keeps_to() -> None:
    stage = planned()
    answer = stage.greet("r0")
    assert answer == stage.welcome("r0", {"system1": 2.0, "safety": 2.0})
    assert dict(answer.models) == {"system1": "policy", "safety": "guard"}


def test_a_robot_too_many_is_refused_in_words() -> None:
    answer = full().greet("r2")
    assert isinstance(answer, m.Refused)
    assert answer.cause == "admission_off"
    assert "the 2 planned slots of task pick are taken" in answer.reason
    assert "only the planned robots are admitted" in answer.reason


def test_a_slot_is_free_again_when_its_robot_has_left_or_fallen_silent() -> None:
    stage = full()
    stage.leave("r0")
    assert isinstance(stage.greet("r2"), m.Welcome)
    stage.wait(10.6)  # nobody was heard for longer than a robot may be silent
    assert stage.core.sessions.robots == []
    assert all(isinstance(stage.greet(robot), m.Welcome) for robot in ("r3", "r4"))


def test_a_robot_that_reconnects_to_a_full_schedule_gets_its_place_back() -> None:
    stage = full()
    stage.now_s += 3.1
    stage.core.on_robot(
        stage.now_s,
        b"again",
        hello("r1", token=stage.tokens["r1"]),
    )
    stage.settle()
    assert isinstance(stage.said[-1].message, m.Welcome)
    assert stage.core.sessions.robots == ["r0", "r1", "s0"]


def test_while_its_servers_load_a_robot_is_asked_to_come_again() -> None:
    stage = planned(warm={"gpu0": "policy", "gpu2": "guard"})
    assert isinstance(stage.greet("r0"), m.Welcome)
    answer = stage.greet("s0", "sort")
    assert isinstance(answer, m.Refused)
    assert (answer.cause, answer.reason) == (
        "not_ready",
        "gpu1 (policy) has no warm worker yet; say hello again",
    )
    assert not stage.core.health().ready
    stage.worker("gpu1/0.1", "policy")
    assert stage.core.health().ready, "a standby that is still loading keeps nobody waiting"
    assert isinstance(stage.greet("s0", "sort"), m.Welcome)


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


def test_a_worker_that_cannot_run_the_planned_batch_is_named() -> None:
    stage = planned(warm={})
    stage.worker("gpu2/0.1", "guard", max_batch=3)
    (note,) = stage.notes
    assert note.event == "batch_below_plan"
    assert note.fields == {"worker": "gpu2/0.1", "planned": 4, "takes": 3}


def test_a_worker_that_no_server_of_the_schedule_has_is_ended() -> None:
    stage = planned()
    stage.worker("gpu9/0.1", "policy")
    stage.worker("gpu0/0.2", "guard")
    assert [kill.worker_id for kill in stage.killed] == ["gpu9/0.1", "gpu0/0.2"]


def test_an_admitted_robot_gets_a_slot_and_all_are_told_the_new_rates() -> None:
    stage = full(Door())
    answer = stage.greet("r2")
    assert isinstance(answer, m.Welcome)
    assert answer.rates_hz["system1"] == 1.0
    told = {say.connection: say.message for say in stage.said if isinstance(say.message, m.Welcome)}
    assert told[b"r0"].rates_hz["system1"] == told[b"r1"].rates_hz["system1"] == 1.0
    assert told[b"s0"].rates_hz == {"system1": 1.5}
    assert stage.notes[-1].fields["reason"].startswith("pick/2 joins")
    stage.send("s0", 1)
    stage.send("r2", 2)
    stage.send("r0", 3)
    assert ran_at(stage) == {1: "gpu1", 3: "gpu0"}
    stage.finish("gpu1/0.1")
    assert ran_at(stage)[2] == "gpu1"


def test_nobody_is_admitted_to_a_server_that_has_failed() -> None:
    door = Door()
    stage = full(door, replace(PLACEMENT, standbys={}))
    stage.lose("gpu1/0.1")
    answer = stage.greet("r2")
    assert isinstance(answer, m.Refused)
    assert (answer.cause, answer.reason) == (
        "not_ready",
        "gpu1 (policy) has no warm worker yet; say hello again",
    )
    assert not door.inside, "the slot is free again"
    assert "pick/2" not in (stage.core.router.placement.routes or {})
    stage.worker("gpu1/0.2", "policy")
    assert isinstance(stage.greet("r2"), m.Welcome)


def test_a_refusal_by_admission_is_remembered_until_something_changes() -> None:
    door = Door()
    stage = full(door)
    for _ in range(5):
        answer = stage.greet("s1", "sort")
        assert isinstance(answer, m.Refused)
    assert "no server with safety has room" in answer.reason
    assert door.asked == 1
    stage.leave("r0")
    stage.greet("s1", "sort")
    assert door.asked == 2


def test_the_place_of_an_admitted_robot_goes_with_it() -> None:
    stage = full(Door())
    stage.greet("r2")
    stage.leave("r2")
    assert "pick/2" not in (stage.core.router.placement.routes or {})
    assert isinstance(stage.greet("r3"), m.Welcome)
    assert isinstance(stage.greet("r4"), m.Refused)


def test_when_an_admitted_robot_leaves_the_others_are_told_that_they_may_be_faster() -> None:
    stage = full(Door())
    stage.greet("r2")
    stage.said.clear()
    stage.leave("r2")
    told = {say.connection: say.message for say in stage.said}
    assert told == {name.encode(): stage.welcome(name, RATES) for name in ("r0", "r1")}


def test_when_an_admitted_robot_falls_silent_the_others_are_told_that_they_may_be_faster() -> None:
    stage = full(Door())
    stage.greet("r2")
    while "r2" in stage.core.sessions.robots:
        for robot, task in (("r0", "pick"), ("r1", "pick"), ("s0", "sort")):
            stage.greet(robot, task)  # the others are heard
        stage.said.clear()
        stage.wait(1)
    told = {say.connection: say.message for say in stage.said}
    assert told == {name.encode(): stage.welcome(name, RATES) for name in ("r0", "r1")}


def test_robots_that_fall_silent_together_are_not_told_what_the_others_leave() -> None:
    stage = full(Door())
    stage.greet("r2")
    stage.said.clear()
    stage.wait(10.6)
    assert stage.core.sessions.robots == []
    assert stage.said == []


def test_a_planned_robot_that_leaves_makes_room_as_long_as_an_admitted_one_is_here() -> None:
    stage = full(Door())
    stage.greet("r2")
    stage.said.clear()
    stage.leave("r0")
    assert set(stage.core.router.placement.routes or ()) == {"pick/1", "pick/2", "sort/0"}
    told = {say.connection: say.message for say in stage.said}
    assert told == {name.encode(): stage.welcome(name, RATES) for name in ("r1", "r2")}
    stage.send("r2", 1)
    assert ran_at(stage) == {1: "gpu1"}, "it keeps its place"
    stage.leave("r1")
    stage.leave("r2")
    assert all(isinstance(stage.greet(robot), m.Welcome) for robot in ("r3", "r4")), "two slots stay"


def test_nobody_takes_the_place_of_a_robot_whose_server_has_failed() -> None:
    door = Door()
    stage = full(door, replace(PLACEMENT, standbys={}))
    stage.greet("r2")
    stage.lose("gpu1/0.1")
    stage.leave("r2")
    assert door.inside, "another robot could be moved to gpu1, where nobody answers"
    answer = stage.greet("r3")
    assert isinstance(answer, m.Refused)
    assert answer.cause == "not_ready"
    stage.said.clear()
    stage.worker("gpu1/0.2", "policy")
    assert not door.inside
    assert set(stage.core.router.placement.routes or ()) == {"pick/0", "pick/1", "sort/0"}
    told = {say.connection: say.message for say in stage.said}
    assert told == {name.encode(): stage.welcome(name, RATES) for name in ("r0", "r1")}


def test_a_place_beside_a_failed_server_is_taken_again_when_that_is_warm() -> None:
    stage = full(Door(), replace(PLACEMENT, standbys={}))
    stage.greet("r2")
    stage.lose("gpu1/0.1")
    stage.leave("r2")
    stage.leave("r1")  # as many places are left as were planned, r2's among them or not
    stage.worker("gpu1/0.2", "policy")
    assert len([slot for slot in stage.core.router.placement.routes or () if slot.startswith("pick/")]) == 2
    assert isinstance(stage.greet("r3"), m.Welcome)


def test_what_runs_for_a_robot_that_changes_its_task_is_not_run_again_under_the_new_one() -> None:
    stage = planned()
    stage.greet("r0")
    stage.send("r0", 1, budget_ms=5000)
    assert isinstance(stage.greet("r0", "sort"), m.Welcome)
    stage.lose("gpu0/0.1")
    assert stage.statuses() == [("r0", 1, "unavailable")]
    assert len(stage.dispatched) == 1


def test_what_waits_for_a_robot_that_changes_its_task_is_answered() -> None:
    stage = planned()
    stage.greet("r0")
    stage.greet("r1")
    stage.send("r1", 1)
    stage.send("r0", 2, budget_ms=5000)  # waits
    assert isinstance(stage.greet("r0", "sort"), m.Welcome)
    assert stage.statuses() == [("r0", 2, "unavailable")]
    stage.send("r0", 3)
    assert ran_at(stage)[3] == "gpu1"
