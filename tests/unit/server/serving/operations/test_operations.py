"""What a person may do to a running server, step by step, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rosa_contract.wire.messages import Output, Welcome
from rosa_contract.wire.watching import Order
from rosa_server.serving.base.worker_spec import WorkerSpec
from rosa_server.serving.core.workers.comparing import WorkerTally
from rosa_server.serving.operations.names import (
    ADD_SLOT,
    ADMIT,
    CANARY,
    CANCEL,
    DRAIN,
    DRY_RUN,
    REMOVE,
    RETIRES_S,
    ROLLOUT,
    SHADOW,
    UNDRAIN,
)
from rosa_server.serving.operations.operations import Operations
from rosa_server.serving.operations.order import OperationError, Site
from rosa_server.serving.operations.rollout import WARMS_S, with_weights
from tests.unit.server.serving.core.planned import WORKERS, full, planned, ran_at
from tests.unit.server.serving.core.stage import Stage

SPEC = WorkerSpec("gpu0/0", "policy", "flow", "", options={"weights": "/old", "steps": 4})


class Workers:
    """A cluster that does what the test says."""

    workers_bind = misconfigured = ""

    def __init__(self) -> None:
        self.held: dict[str, bool] = {}
        self.killed: list[str] = []
        self.heirs: dict[str, WorkerSpec] = {}
        self.reverted: list[str] = []
        self.waiting: list[str] = []  # names whose heirs wait
        self.inherited: list[str] = []
        self.irrevocable: list[str] = []
        self.spec = SPEC

    def hold(self, name: str, held: bool) -> None:
        self.held[name] = held

    def bequeath(self, name: str, change: Callable[[WorkerSpec], WorkerSpec], waits: bool = False) -> str:
        self.waiting += [name] * waits
        self.heirs[f"{name}.2"] = change(self.spec)
        return f"{name}.2"

    def inherit(self, name: str) -> None:
        self.inherited.append(name)

    def revert(self, name: str) -> None:
        if name in self.irrevocable:
            raise ValueError(f"the old worker of {name} has ended meanwhile")
        self.reverted.append(name)

    def kill(self, worker_id: str, reason: str) -> None:
        self.killed.append(worker_id)


class Office:
    def __init__(self, stage: Stage) -> None:
        self.stage, self.cluster = stage, Workers()
        self.told: list[tuple[str, str]] = []  # answers: (order, cause)
        self.drained: list[str] = []
        self.counted: list[str] = []
        cluster: Any = self.cluster
        self.lines: list[str] = []  # told in between
        site = Site(stage.core, cluster, self.drained.append, self.counted.append, self)
        self.operations = Operations(site)

        self.compared: dict[str, WorkerTally] = {}

    def going(self, order: Order, words: str) -> None:
        self.lines.append(words)

    def rescheduled(self, about: Mapping[str, Any]) -> None:
        raise AssertionError("nobody asked for it")

    def compare(self, workers: Sequence[str]) -> Mapping[str, WorkerTally]:
        return {name: self.compared.setdefault(name, WorkerTally()) for name in workers}

    def compare_no_more(self, workers: Sequence[str]) -> None:
        for name in workers:
            del self.compared[name]

    def obeyed(self, order: Order, cause: str, words: str) -> None:
        self.told.append((order.what, cause))

    def order(self, what: str, target: str, value: str = "") -> None:
        self.step(Order(b"", 1, what, target, value, "me"))

    def step(self, *orders: Order, lost: tuple[str, ...] = (), seconds: float = 0.0) -> None:
        self.stage.now_s += seconds
        self.operations.step(self.stage.now_s, orders, dict.fromkeys(lost, "ended by SIGKILL"))
        self.stage.settle()

    def at_work(self) -> tuple[str, str, list[str]]:
        """What is told of the only operation, and what is drained."""
        told = self.operations.at_work(self.stage.now_s)
        (one,) = told["operations"]
        return one["target"], one["doing"], told["drained"]

    def ends(self, worker_id: str) -> None:
        """The process of a worker ends."""
        self.stage.lose(worker_id)
        self.step(lost=(worker_id,))


@pytest.fixture
def office() -> Office:
    return Office(full())


@pytest.fixture
def weights(tmp_path: Path) -> str:
    (tmp_path / "new").write_text("")
    return str(tmp_path / "new")


def test_a_drained_server_ends_when_it_has_finished_and_not_before(office: Office) -> None:
    office.stage.send("r0", 1, budget_ms=5000)
    office.order(DRAIN, "gpu0")
    assert office.cluster.held == {"gpu0/0": True} and not office.drained, "it still runs a call"
    office.stage.finish("gpu0/0.1")
    office.step()
    office.step()
    assert office.drained == ["gpu0/0.1"] and not office.told
    office.ends("gpu0/0.1")
    assert office.told == [(DRAIN, "")]
    office.order(UNDRAIN, "gpu0")
    assert office.cluster.held == {"gpu0/0": False} and office.told[-1] == (UNDRAIN, "")
    assert office.counted == ["drain_retired", "drain_begun", "drain_ended", "drain_done", "undrain_done"]


def test_a_server_that_does_not_end_is_ended(office: Office) -> None:
    office.stage.send("r0", 1, budget_ms=500_000)
    office.order(DRAIN, "gpu0")
    office.step(seconds=RETIRES_S + 1)
    assert office.cluster.killed == ["gpu0/0.1"]


def test_what_would_leave_streams_without_a_server_is_refused(office: Office) -> None:
    office.order(DRAIN, "spare")  # a standby protects, and runs nothing
    office.stage.lose("spare/policy/0.1")
    office.stage.lose("spare/guard/0.1")
    office.step()
    office.order(DRAIN, "gpu0")
    assert office.told[-1] == (DRAIN, "nobody_else")
    assert "gpu0/0" not in office.cluster.held, "nothing was begun"


def test_a_standby_that_stands_in_is_all_that_its_streams_have(office: Office) -> None:
    office.order(DRAIN, "gpu0")
    office.ends("gpu0/0.1")
    office.order(DRAIN, "spare")
    assert office.told == [(DRAIN, ""), (DRAIN, "nobody_else")]
    assert "spare/policy/0" not in office.cluster.held
    office.stage.send("r0", 1)
    assert ran_at(office.stage) == {1: "spare/policy"}


def test_one_standby_is_not_enough_for_two_servers(office: Office) -> None:
    office.order(DRAIN, "gpu0")
    office.ends("gpu0/0.1")
    office.order(DRAIN, "gpu1")
    assert office.told == [(DRAIN, ""), (DRAIN, "nobody_else")]


def test_a_server_that_failed_and_whose_streams_a_standby_runs_may_be_drained(office: Office) -> None:
    office.ends("gpu0/0.1")
    office.order(DRAIN, "gpu0")
    assert office.told == [(DRAIN, "")] and office.cluster.held == {"gpu0/0": True}


def test_a_server_that_is_drained_while_it_loads_leaves_its_streams_to_the_standby() -> None:
    office = Office(planned(warm={name: model for name, model in WORKERS.items() if name != "gpu0"}))
    office.order(DRAIN, "gpu0")
    assert office.told == [(DRAIN, "")]
    assert isinstance(office.stage.greet("r0"), Welcome), "nobody waits for it"
    office.stage.send("r0", 1)
    assert ran_at(office.stage) == {1: "spare/policy"}


@pytest.mark.parametrize(
    ("what", "target", "value", "cause"),
    [
        ("dance", "gpu0", "", "unknown_order"),
        (DRAIN, "gpu7", "", "unknown_target"),
        (UNDRAIN, "gpu0", "", "not_drained"),
        (ROLLOUT, "polcy", "/tmp", "unknown_target"),
        (ROLLOUT, "policy", "/nowhere/at/all", "no_weights"),
        (ROLLOUT, "policy", "relative", "no_weights"),
        (CANARY, "policy", "/tmp", "bad_value"),
        (CANARY, "policy", "0 /tmp", "bad_value"),
        (CANARY, "policy", "nan /tmp", "bad_value"),
        (CANARY, "policy", "5 /nowhere/at/all", "no_weights"),
        (SHADOW, "policy", "/tmp", "bad_value"),
        (SHADOW, "policy", "5 share=0 /tmp", "bad_value"),
        (SHADOW, "policy", "5 share=1.5 /tmp", "bad_value"),
        (SHADOW, "policy", "5 slower=nan /tmp", "bad_value"),
        (SHADOW, "policy", "5 speed=2 /tmp", "bad_value"),
        (SHADOW, "policy", "5 share=0.5 slower=2 /nowhere/at/all", "no_weights"),
        (REMOVE, "r9", "", "unknown_target"),
        (ADMIT, "r0", "", "not_removed"),
        (ADD_SLOT, "pikc", "", "unknown_target"),
        (ADD_SLOT, "pick", DRY_RUN, "not_admitted"),
    ],
)
def test_a_wrong_order_is_refused_by_its_cause(
    office: Office, what: str, target: str, value: str, cause: str
) -> None:
    office.order(what, target, value)
    assert office.told == [(what, cause)]


def test_two_operations_on_one_server_at_a_time_are_refused(office: Office, weights: str) -> None:
    office.order(DRAIN, "gpu0")
    office.order(ROLLOUT, "policy", weights)
    assert office.told == [(ROLLOUT, "busy")]


def test_new_weights_take_over_one_worker_after_the_other(office: Office, weights: str) -> None:
    office.order(ROLLOUT, "policy", weights)
    seen = []
    for name in ("gpu0/0", "gpu1/0", "spare/policy/0"):
        assert f"{name}.2" in office.cluster.heirs and len(office.cluster.heirs) == len(seen) + 1
        office.stage.worker(f"{name}.2")  # it is warm
        office.step()
        old = office.stage.core.pool.get(f"{name}.1")
        assert old is not None and old.retired
        office.step()
        assert office.drained == [*seen, f"{name}.1"]
        seen.append(f"{name}.1")
        office.ends(f"{name}.1")
        office.step()
    assert office.told == [(ROLLOUT, "")]
    assert {spec.options["weights"] for spec in office.cluster.heirs.values()} == {weights}
    assert {spec.options["steps"] for spec in office.cluster.heirs.values()} == {4}


@pytest.mark.parametrize("late", [False, True])
def test_weights_that_do_not_get_warm_change_nothing(office: Office, weights: str, late: bool) -> None:
    office.order(ROLLOUT, "policy", weights)
    if late:
        office.step(seconds=WARMS_S + 1)
    else:
        office.step(lost=("gpu0/0.2",))
    assert office.told == [(ROLLOUT, "not_warm")]
    assert office.cluster.killed == (["gpu0/0.2"] if late else [])
    assert not any(worker.retired for worker in office.stage.core.pool)


def test_weights_that_a_factory_file_pins_or_that_a_model_has_not_are_refused(
    office: Office, weights: str
) -> None:
    for spec, cause in (
        (
            WorkerSpec("gpu0/0", "policy", "flow", "", options={"weights": "/w"}, sha256={"/w": "00"}),
            "pinned",
        ),
        (WorkerSpec("gpu0/0", "policy", "emulated", ""), "no_weights"),
    ):
        with pytest.raises(OperationError) as error:
            with_weights(spec, weights)
        assert error.value.cause == cause
        office.cluster.spec = spec
        office.order(ROLLOUT, "policy", weights)
        assert office.told[-1] == (ROLLOUT, cause)


def test_a_cancelled_drain_gives_the_server_back(office: Office) -> None:
    office.stage.send("r0", 1, budget_ms=5000)
    office.order(DRAIN, "gpu0")
    assert office.at_work() == ("gpu0", "1 of 1 workers have to finish what they run", ["gpu0/0"])
    office.order(CANCEL, "gpu0")
    assert office.told == [(CANCEL, "")] and office.cluster.held == {"gpu0/0": False}
    assert office.at_work() == ("gpu0", "is being cancelled", [])
    office.stage.finish("gpu0/0.1")
    office.ends("gpu0/0.1")
    assert office.told[-1] == (DRAIN, "cancelled")
    assert office.counted[-1] == "drain_cancelled"
    office.order(CANCEL, "gpu0")
    assert office.told[-1] == (CANCEL, "nothing_at_work")


def test_a_server_is_given_back_when_its_drain_has_ended_and_not_before(office: Office) -> None:
    office.stage.send("r0", 1, budget_ms=5000)
    office.order(DRAIN, "gpu0")
    office.order(UNDRAIN, "gpu0")
    assert office.told == [(UNDRAIN, "busy")], "`cancel` ends a drain that is at work"
    office.stage.finish("gpu0/0.1")
    office.ends("gpu0/0.1")
    assert office.told[-1] == (DRAIN, "") and office.cluster.held == {"gpu0/0": True}
    office.order(UNDRAIN, "gpu0")
    assert office.told[-1] == (UNDRAIN, "") and office.cluster.held == {"gpu0/0": False}


def test_a_cancelled_rollout_ends_what_loads_and_keeps_what_has_taken_over(
    office: Office, weights: str
) -> None:
    office.order(ROLLOUT, "policy", weights)
    office.stage.worker("gpu0/0.2")
    office.step()
    office.step()
    office.ends("gpu0/0.1")
    office.step()
    assert "gpu1/0.2" in office.cluster.heirs and office.at_work()[1].startswith("1 of 3")
    office.order(CANCEL, "policy")
    assert office.cluster.killed == ["gpu1/0.2"] and office.told == [(CANCEL, "")]
    office.step(lost=("gpu1/0.2",))
    office.step()
    assert office.told[-1] == (ROLLOUT, "cancelled")
    assert "spare/policy/0.2" not in office.cluster.heirs, "the third is not begun"
    assert not any(worker.retired for worker in office.stage.core.pool)


def test_a_new_worker_that_was_ready_just_before_it_was_cancelled_takes_over_in_its_next_life(
    office: Office, weights: str
) -> None:
    office.order(ROLLOUT, "policy", weights)
    office.order(CANCEL, "policy")
    office.stage.worker("gpu0/0.2")  # its word was on its way
    office.step()
    old = office.stage.core.pool.get("gpu0/0.1")
    assert old is not None and not old.retired, "the new one is about to die"
    office.ends("gpu0/0.2")
    assert not old.retired
    office.stage.worker("gpu0/0.3")
    office.step()
    assert old.retired
    office.ends("gpu0/0.1")
    office.step()
    assert office.told[-1] == (ROLLOUT, "cancelled")


def test_every_step_is_told_to_who_gave_the_order(office: Office, weights: str) -> None:
    office.order(ROLLOUT, "policy", weights)
    office.stage.worker("gpu0/0.2")
    office.step(seconds=2.0)
    assert office.lines == [
        "begun with gpu0/0, gpu1/0, spare/policy/0",
        "gpu0/0.2 starts with the new weights, beside gpu0/0 (1 of 3)",
        "gpu0/0.2 is warm after 2.0 s and takes over",
        "gpu0/0.1 gets no more calls",
    ]


def test_a_robot_is_removed_and_admitted_again_and_both_are_in_the_log(office: Office) -> None:
    office.order(REMOVE, "r0")
    assert office.told == [(REMOVE, "")] and office.stage.core.sessions.of_robot("r0") is None
    assert office.operations.at_work(office.stage.now_s)["removed"] == ["r0"]
    office.order(ADMIT, "r0")
    assert office.told[-1] == (ADMIT, "") and not office.stage.core.sessions.removed
    assert office.counted == ["remove_done", "admit_done"]


def compared(office: Office, weights: str, new_failed: int) -> None:
    """A canary whose two workers have answered."""
    office.order(CANARY, "policy", f"60 {weights}")
    office.stage.worker("gpu0/0.2")
    office.step(seconds=1.0)
    assert set(office.compared) == {"gpu0/0.1", "gpu0/0.2"}
    old = office.stage.core.pool.get("gpu0/0.1")
    assert old is not None and not old.retired, "both take calls"
    for number in range(40):
        office.compared["gpu0/0.1"].count(False, False, 20.0)
        office.compared["gpu0/0.2"].count(number < new_failed, False, 20.0)
    office.step(seconds=2.0)
    assert not office.told and office.at_work()[1].endswith("old and new are compared")


def test_new_weights_that_do_as_well_take_over_and_the_others_follow(office: Office, weights: str) -> None:
    compared(office, weights, 0)
    office.operations.step(office.stage.now_s + 60.0, ())
    old = office.stage.core.pool.get("gpu0/0.1")
    assert old is not None and old.retired and not office.compared, "nothing is counted any more"
    office.step()
    office.ends("gpu0/0.1")
    office.step()
    assert "gpu1/0.2" in office.cluster.heirs
    office.stage.worker("gpu1/0.2")
    office.step()
    other = office.stage.core.pool.get("gpu1/0.1")
    assert other is not None and other.retired, "only the first is compared"


def test_new_weights_that_do_worse_end_and_the_old_ones_serve_on(office: Office, weights: str) -> None:
    compared(office, weights, 5)
    office.operations.step(office.stage.now_s + 60.0, ())
    assert office.cluster.reverted == ["gpu0/0"] and not office.told
    new, old = (office.stage.core.pool.get(f"gpu0/0.{life}") for life in (2, 1))
    assert new is not None and new.retired and old is not None and not old.retired
    office.step()
    office.ends("gpu0/0.2")
    assert office.told == [(CANARY, "worse")] and "gpu1/0.2" not in office.cluster.heirs
    assert office.counted[-1] == "canary_failed"


def test_a_canary_that_ends_or_is_cancelled_is_given_up(office: Office, weights: str) -> None:
    compared(office, weights, 0)
    office.ends("gpu0/0.2")
    office.step()
    assert office.told == [(CANARY, "worse")] and office.cluster.reverted == ["gpu0/0"]
    other = Office(full())
    compared(other, weights, 0)
    other.order(CANCEL, "policy")
    other.step()
    other.ends("gpu0/0.2")
    assert other.told == [(CANCEL, ""), (CANARY, "cancelled")] and other.cluster.reverted == ["gpu0/0"]


@pytest.mark.parametrize(("new_failed", "reverted"), [(0, []), (40, ["gpu0/0"])])
def test_where_the_old_worker_ends_what_both_have_answered_until_then_decides(
    office: Office, weights: str, new_failed: int, reverted: list[str]
) -> None:
    """Both are on one GPU: the new one may be why."""
    compared(office, weights, new_failed)
    office.ends("gpu0/0.1")
    assert office.cluster.reverted == reverted
    office.step()
    assert ("gpu1/0.2" in office.cluster.heirs) == (not reverted), "the others follow, or do not"


def shadowed(office: Office, weights: str, distance: float, value: str = "60") -> None:
    """A shadow that has answered copies, and acted this much otherwise."""
    office.order(SHADOW, "policy", f"{value} {weights}")
    assert office.cluster.waiting == ["gpu0/0"]
    office.stage.worker("gpu0/0.2")
    office.step(seconds=1.0)
    assert office.at_work()[1].endswith("old and new are compared")
    (shadow,) = office.stage.core._dispatcher.shadows.values()
    old = np.arange(8, dtype=np.float32).reshape(4, 2)
    for number in range(40):
        shadow.old.count(False, False, 20.0)
        shadow.new.count(False, False, 20.0 + number % 2)
        shadow.likeness.compare(
            Output({"actions": old}), Output({"actions": old + np.float32(distance * 5**0.5)})
        )


def test_a_shadow_that_acts_as_the_old_weights_takes_over_and_the_others_follow(
    office: Office, weights: str
) -> None:
    shadowed(office, weights, 0.4)
    office.step(seconds=60.0)
    old, new = (office.stage.core.pool.get(f"gpu0/0.{life}") for life in (1, 2))
    assert old is not None and old.retired and new is not None and not new.apart
    assert office.cluster.inherited == ["gpu0/0"] and not office.stage.core._dispatcher.shadows
    office.step()
    office.ends("gpu0/0.1")
    office.step()
    assert "gpu1/0.2" in office.cluster.heirs and office.cluster.waiting == ["gpu0/0"], (
        "only the first is tried"
    )


def test_a_shadow_that_acts_otherwise_ends_and_the_words_say_how_far(office: Office, weights: str) -> None:
    shadowed(office, weights, 0.6)
    office.step(seconds=60.0)
    assert office.cluster.reverted == ["gpu0/0"] and not office.cluster.inherited
    new = office.stage.core.pool.get("gpu0/0.2")
    assert new is not None and new.retired
    office.step()
    office.ends("gpu0/0.2")
    office.step()
    assert office.told == [(SHADOW, "worse")]
    assert any("actions differ by 0.600 of their spread" in line for line in office.lines)


def test_how_far_and_how_slow_is_allowed_is_the_orders(office: Office, weights: str) -> None:
    shadowed(office, weights, 0.6, "60 distance=0.7")
    office.step(seconds=60.0)
    assert office.cluster.inherited == ["gpu0/0"]


@pytest.mark.parametrize("how", ["it ends", "it is cancelled"])
def test_a_shadow_that_ends_or_is_cancelled_leaves_all_as_it_was(
    office: Office, weights: str, how: str
) -> None:
    shadowed(office, weights, 0.0)
    if how == "it ends":
        office.ends("gpu0/0.2")
    else:
        office.order(CANCEL, "policy")
        office.step()
        office.ends("gpu0/0.2")
    office.step()
    assert office.told[-1] == (SHADOW, "worse" if how == "it ends" else "cancelled")
    old = office.stage.core.pool.get("gpu0/0.1")
    assert old is not None and not old.apart and not office.stage.core._dispatcher.shadows


@pytest.mark.parametrize("late", [False, True])
def test_a_shadow_that_does_not_get_warm_changes_nothing(office: Office, weights: str, late: bool) -> None:
    office.order(SHADOW, "policy", f"60 {weights}")
    office.step(seconds=WARMS_S + 1 if late else 0.0, lost=() if late else ("gpu0/0.2",))
    assert office.told == [(SHADOW, "not_warm")] and not office.stage.core._dispatcher.shadows


def test_a_canary_gets_its_share_where_the_old_worker_is_never_busy(office: Office, weights: str) -> None:
    office.order(CANARY, "policy", f"60 {weights}")
    office.stage.worker("gpu0/0.2")
    office.step()
    ran = []
    for number in range(10):
        office.stage.send("r0", number, budget_ms=5000)
        (worker,) = [name for name, held in office.stage.held.items() if held]
        ran.append(worker)
        office.stage.finish(worker)
    assert ran.count("gpu0/0.1") == ran.count("gpu0/0.2") == 5


def test_an_old_worker_that_ended_meanwhile_cannot_come_back(office: Office, weights: str) -> None:
    compared(office, weights, 5)
    office.cluster.irrevocable.append("gpu0/0")
    office.operations.step(office.stage.now_s + 60.0, ())
    office.step()
    assert office.told == [(CANARY, "worse")]


def test_where_few_calls_come_a_canary_waits_for_more(office: Office, weights: str) -> None:
    office.order(CANARY, "policy", f"10 {weights}")
    office.stage.worker("gpu0/0.2")
    office.step()
    began_s = office.stage.now_s
    office.operations.step(began_s + 50.0, ())
    assert office.at_work()[1].endswith("old and new are compared")
    office.operations.step(began_s + 101.0, ())
    assert office.cluster.reverted == ["gpu0/0"], "nobody called"
