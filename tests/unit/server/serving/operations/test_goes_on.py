"""A server is killed after any step of an operation: the one that follows goes on with it, and does nothing twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from rosa_contract.wire import messages as m
from rosa_server.plan.admission import AdmissionControl, Admitted
from rosa_server.plan.change import Stage
from rosa_server.plan.placement import Placement
from rosa_server.serving.base.worker_spec import WorkerSpec
from rosa_server.serving.operations.live_state import MAX_TRIES, LiveState
from rosa_server.serving.operations.names import (
    ADD_SLOT,
    ADMIT,
    CANARY,
    CANCEL,
    DRAIN,
    REMOVE,
    RESCHEDULE,
    ROLLOUT,
    SHADOW,
    UNDRAIN,
)
from rosa_server.serving.operations.operations import Operations
from rosa_server.serving.operations.restoring import restore
from tests.unit.server.serving.core.planned import PLACEMENT, WORKERS, full, planned
from tests.unit.server.serving.core.stage import Stage as ServerStage
from tests.unit.server.serving.operations import test_operations, test_reschedule

NAMES = ("gpu0/0", "gpu1/0", "spare/policy/0")


class Cluster(test_operations.Workers):
    def __init__(self) -> None:
        super().__init__()
        self.specs = {f"{name}/0": replace(test_operations.SPEC, worker_id=f"{name}/0") for name in WORKERS}

    def change(self, name: str, change: Callable[[WorkerSpec], WorkerSpec]) -> None:
        self.specs[name] = change(self.specs[name])


class Life(test_operations.Office):
    """One life of a server, with the state that an earlier one has left."""

    def __init__(self, path: Path, stage: ServerStage | None = None, ready: bool = True) -> None:
        super().__init__(stage or planned(warm={}))
        self.cluster = Cluster()
        cluster: object = self.cluster
        self.state = LiveState(path, "the same files")
        self.state.load()
        site = replace(self.operations._site, cluster=cluster, state=self.state)
        restore(site, self.stage.now_s)
        self.operations = Operations(site)
        if ready:
            self.warm_up()

    def warm_up(self) -> None:
        for replica, model in WORKERS.items():
            if not self.cluster.held.get(f"{replica}/0"):
                self.stage.worker(f"{replica}/0.1", model)
        self.step()

    def act(self) -> bool:
        """What the world does next: an heir gets warm, or a worker that was drained ends."""
        for heir in self.cluster.heirs:
            if self.stage.core.pool.get(heir) is None and heir not in self.ended:
                self.stage.worker(heir)
                self.step()
                return True
        for worker_id in self.drained:
            if worker_id not in self.ended:
                self.ended.add(worker_id)
                self.ends(worker_id)
                return True
        before = len(self.lines), len(self.told)
        self.step()
        return (len(self.lines), len(self.told)) != before or bool(self.operations.at_work(0.0)["operations"])

    @property
    def ended(self) -> set[str]:
        return self.__dict__.setdefault("_ended", set())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "5570.state"


@pytest.fixture
def weights(tmp_path: Path) -> str:
    (tmp_path / "new").write_text("")
    return str(tmp_path / "new")


def running(life: Life) -> dict[str, str]:
    """Name -> the weights that its worker would start with next."""
    found = {name: str(life.cluster.specs[name].options["weights"]) for name in NAMES}
    for worker_id, spec in life.cluster.heirs.items():
        found[worker_id.rpartition(".")[0]] = str(spec.options["weights"])
    return found


@pytest.mark.parametrize("killed_after", range(14))
def test_a_rollout_is_gone_on_with_wherever_it_was(path: Path, weights: str, killed_after: int) -> None:
    first = Life(path)
    first.order(ROLLOUT, "policy", weights)
    for _ in range(killed_after):
        first.act()
    over = (ROLLOUT, "") in first.told
    done = [name for name in NAMES if name in first.state.weights]

    second = Life(path)
    began_with = {name for name in NAMES if second.cluster.specs[name].options["weights"] == weights}
    assert began_with == set(done), "what has taken over begins with the new weights"
    for _ in range(40):
        second.act()
    assert second.told == ([] if over else [(ROLLOUT, "")])
    assert set(running(second).values()) == {weights}
    heirs = {worker_id.rpartition(".")[0] for worker_id in second.cluster.heirs}
    assert not heirs & set(done), "nothing is done twice"
    assert not second.state.unfinished and set(second.state.weights) == set(NAMES)

    third = Life(path)
    assert not third.told and set(running(third).values()) == {weights}


@pytest.mark.parametrize("kind", [CANARY, SHADOW])
def test_weights_on_trial_are_tried_again(path: Path, weights: str, kind: str) -> None:
    first = Life(path)
    first.order(kind, "policy", f"60 {weights}")
    first.act()
    assert first.at_work()[1].endswith("old and new are compared")
    second = Life(path)
    assert second.cluster.specs["gpu0/0"].options["weights"] == "/old", "it was not promoted"
    second.act()
    assert second.at_work()[1].endswith("old and new are compared")


def test_what_was_cancelled_or_has_failed_is_not_gone_on_with(path: Path, weights: str) -> None:
    first = Life(path)
    first.order(ROLLOUT, "policy", weights)
    first.order(CANCEL, "policy")
    second = Life(path)
    second.step()
    assert not second.told and not second.cluster.heirs
    second.order(ROLLOUT, "policy", weights)
    second.step(lost=("gpu0/0.2",))
    assert second.told == [(ROLLOUT, "not_warm")]
    third = Life(path)
    assert not third.told and not third.cluster.heirs


def test_what_is_ordered_anew_before_a_server_goes_on_takes_the_place_of_what_it_would_go_on_with(
    path: Path, weights: str, tmp_path: Path
) -> None:
    Life(path).order(ROLLOUT, "policy", weights)
    (tmp_path / "newer").write_text("")
    second = Life(path, ready=False)
    second.order(ROLLOUT, "policy", str(tmp_path / "newer"))
    second.warm_up()
    assert not second.told, "it is at work, and nothing was refused"
    assert [one.value for one in second.state.unfinished] == [str(tmp_path / "newer")]
    third = Life(path)
    assert third.counted[:1] == ["rollout_continued"]


def test_an_order_that_cannot_be_gone_on_with_ends_with_one_line(path: Path, weights: str) -> None:
    Life(path).order(ROLLOUT, "policy", weights)
    Path(weights).unlink()
    second = Life(path)
    assert second.told == [(ROLLOUT, "no_weights")]
    assert second.counted == ["rollout_continued", "rollout_refused"]
    assert second.state.empty and not path.exists()


def test_a_drained_server_stays_away_and_its_streams_are_with_the_standby(path: Path) -> None:
    first = Life(path, full())
    first.order(DRAIN, "gpu0")
    second = Life(path)
    assert second.cluster.held == {"gpu0/0": True}
    assert second.stage.core.router.ready and isinstance(second.stage.greet("r0"), m.Welcome)
    second.stage.send("r0", 1)
    assert second.stage.dispatched[-1].worker_id == "spare/policy/0.1"
    second.order(UNDRAIN, "gpu0")
    assert second.told == [(UNDRAIN, "")] and not path.exists()


def test_a_removed_robot_stays_out(path: Path) -> None:
    first = Life(path, full())
    first.order(REMOVE, "r0")
    second = Life(path)
    refused = second.stage.greet("r0")
    assert (
        isinstance(refused, m.Refused) and refused.cause == "removed" and "me has removed" in refused.reason
    )
    second.order(ADMIT, "r0")
    assert not Life(path).stage.core.sessions.removed


def test_nothing_goes_on_before_every_stream_is_served(path: Path, weights: str) -> None:
    Life(path).order(ROLLOUT, "policy", weights)
    second = Life(path, ready=False)
    second.step()
    assert not second.cluster.heirs
    second.warm_up()
    assert second.cluster.heirs and second.state.tries == 1, "it might be what ended the first"
    while second.operations.at_work(0.0)["operations"]:
        second.act()
    assert second.state.tries == 0


def test_an_operation_that_ends_every_server_is_gone_on_with_three_times(path: Path, weights: str) -> None:
    Life(path).order(ROLLOUT, "policy", weights)
    for _ in range(MAX_TRIES):
        life = Life(path)
        assert life.operations.at_work(0.0)["operations"]
    life = Life(path)
    assert not life.operations.at_work(0.0)["operations"] and life.state.empty and not path.exists()


class Scheduled(test_reschedule.Office):
    """The same for another schedule."""

    def __init__(
        self, path: Path, door: AdmissionControl | None = None, placement: Placement = PLACEMENT
    ) -> None:
        super().__init__()
        if door is not None:
            self.stage = full(door, placement)
        self.state = LiveState(path, "the same files")
        self.state.load()
        self.plans.found = NEW
        self.began_with = self.state.schedule
        self.operations = Operations(replace(self.site(self.plans), state=self.state))
        restore(self.operations._site, self.stage.now_s)


NEW = replace(test_reschedule.CHANGE, schedule={"schema": "new"})


@pytest.mark.parametrize("words", ["being planned", "gpu3 loads"])
def test_a_rescheduling_that_has_moved_nobody_begins_with_the_old_schedule_and_goes_on(
    path: Path, words: str
) -> None:
    first = Scheduled(path)
    if words == "being planned":
        first.plans.may.clear()
    first.order(RESCHEDULE)
    first.run_until(words)
    first.plans.may.set()
    second = Scheduled(path)
    assert second.began_with is None
    second.step()
    second.run_until("gpu3 loads")
    second.stage.worker("gpu3/0.1")
    second.step()
    second.run_until("gpu1 unloads")
    second.stage.lose("gpu1/0.1")
    second.run_to_end()
    assert second.told == [(RESCHEDULE, "")]
    assert Scheduled(path).began_with == {"schema": "new"}


def test_a_rescheduling_that_has_moved_streams_begins_with_the_new_schedule(path: Path) -> None:
    first = Scheduled(path)
    first.order(RESCHEDULE)
    first.run_until("gpu3 loads")
    first.stage.worker("gpu3/0.1")
    first.step()
    first.run_until("gpu1 unloads")
    second = Scheduled(path)
    assert second.began_with == {"schema": "new"}
    second.step()
    assert second.told == [(RESCHEDULE, "")] and not second.cluster.added
    assert not Scheduled(path).state.unfinished


class Roomy:
    """Admits any number of robots of `pick`."""

    def __init__(self, placement: Placement) -> None:
        self.placement = placement

    def admit(self, task: str) -> Admitted:
        routes = dict(self.placement.routes or {})
        slot = f"pick/{sum(name.startswith('pick/') for name in routes)}"
        routes[slot] = {"system1": "gpu1", "safety": "gpu2"}
        self.placement = replace(self.placement, routes=routes)
        return Admitted(slot, self.placement, "there is room")

    def leave(self, slot: str) -> Placement:
        raise AssertionError("nobody leaves")


def test_an_added_slot_is_not_added_again_to_a_schedule_that_has_it(path: Path) -> None:
    first = Scheduled(path, Roomy(PLACEMENT))
    first.order(ADD_SLOT, "pick", "")
    added = first.placement
    assert len(added.routes or {}) == 4 and first.state.slots == ["pick"]
    stages = (Stage("1 stream moves", added, moves=True), Stage("all as planned", added))
    first.plans.found = replace(NEW, stages=stages)
    first.plans.prepare = lambda placement, taken: first.plans._plan  # type: ignore[method-assign]
    first.order(RESCHEDULE)
    first.run_to_end()
    assert first.told[-1] == (RESCHEDULE, "") and first.placement.routes == added.routes
    second = Scheduled(path, Roomy(added), added)
    assert second.began_with == {"schema": "new"}
    second.step()
    assert not second.told and second.placement.routes == added.routes


def test_a_server_that_ends_in_order_says_what_it_cancels(path: Path, weights: str) -> None:
    life = Life(path)
    life.order(ROLLOUT, "policy", weights)
    life.operations.close()
    assert life.told == [(ROLLOUT, "cancelled")]
