"""The gateway's side of a Ray cluster, with a driver that plays Ray's part."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rosa_contract.config.factory import factory_from
from rosa_server.cluster import maker
from rosa_server.cluster.on_ray import check_reachable, check_token, further_of, part_of, parts_of
from rosa_server.cluster.on_ray import cluster as on_ray_cluster
from rosa_server.cluster.on_ray.cluster import RayCluster
from rosa_server.cluster.on_ray.mapping import Part, RayError
from rosa_server.plan.placement import Placement, Replica, unplanned
from rosa_server.serving.base import log
from rosa_server.serving.base.worker_keys import WorkerKeys
from rosa_server.serving.base.worker_spec import MISCONFIGURED, WorkerSpec
from rosa_server.serving.edge.cluster import ClusterError

PATIENCE_S = 60.0
# Answers the first line as it is told, writes down what it hears, and says what the test puts into a file.
DRIVER = """
import json, pathlib, select, sys
folder = pathlib.Path(sys.argv[1])
stdin = open(0, "rb", buffering=0)  # select sees what waits
order = json.loads(stdin.readline())
heard = folder / "heard"
with heard.open("a") as file:
    file.write(json.dumps(order) + "\\n")
print((folder / "answer").read_text(), flush=True)
said = 0
while True:
    ready, _, _ = select.select([stdin], [], [], 0.01)
    if ready:
        line = stdin.readline().decode()
        if not line or json.loads(line).get("do") == "stop":
            break
        with heard.open("a") as file:
            file.write(line)
    says = (folder / "says").read_text().splitlines() if (folder / "says").exists() else []
    for line in says[said:]:
        if line == "end":
            (folder / "says").write_text("")
            sys.exit(1)
        print(line, flush=True)
    said = len(says)
"""
WHERE = {"policy/0": {"name": "rosa/x/policy/0/1", "node": "n1", "address": "10.0.0.1"}}
PLACED = {"event": "placed", "address": "10.0.0.9", "where": WHERE}


class Stage:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.answer(PLACED)
        self.keys = WorkerKeys()
        self._says: list[str] = []

    def answer(self, first: dict[str, Any]) -> None:
        (self.folder / "answer").write_text(json.dumps(first))

    def says(self, **event: Any) -> None:
        self._says.append(json.dumps(event) if event else "end")
        written = self.folder / "says.new"
        written.write_text("\n".join(self._says) + "\n")
        written.replace(self.folder / "says")
        if not event:
            self._says = []

    def heard(self) -> list[dict[str, Any]]:
        text = (self.folder / "heard").read_text() if (self.folder / "heard").exists() else ""
        return [json.loads(line) for line in text.splitlines()]

    def cluster(self) -> RayCluster:
        spec = WorkerSpec("policy/0", "policy", "emulated", "", options={"latency_ms": 1.0})
        command = (sys.executable, "-I", "-S", "-c", DRIVER, str(self.folder))
        return RayCluster([(spec, "policy/0")], [Part("policy/0")], "127.0.0.1:1", command=command)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


@pytest.fixture
def running(stage: Stage) -> Iterator[RayCluster]:
    cluster = stage.cluster()
    with contextlib.ExitStack() as undo:
        undo.callback(cluster.stop, 0.0)
        cluster.start("tcp://10.0.0.9:7000", stage.keys)
        yield cluster


def until(condition: Callable[[], Any]) -> Any:
    end_s = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < end_s, "did not happen in time"
        time.sleep(0.01)
    return found


def starts(stage: Stage) -> list[dict[str, Any]]:
    return [told["spec"] for told in stage.heard() if told.get("do") == "start"]


def test_a_refusal_of_the_driver_is_the_clusters_and_no_process_stays(stage: Stage) -> None:
    stage.answer({"event": "refused", "cause": "too_few_gpus", "words": "two GPUs are missing"})
    with pytest.raises(RayError, match="two GPUs are missing") as error:
        stage.cluster()
    assert error.value.cause == "too_few_gpus"


def test_workers_connect_to_the_address_that_nodes_see_with_a_key_for_each_life(
    stage: Stage, running: RayCluster
) -> None:
    assert running.workers_bind == "tcp://10.0.0.9:*"
    until(lambda: running.poll(time.monotonic()) or starts(stage))
    (first,) = starts(stage)
    assert (first["worker_id"], first["endpoint"]) == ("policy/0.1", "tcp://10.0.0.9:7000")
    assert stage.keys.valid("policy/0.1")
    running.ready("policy/0.1", time.monotonic())
    stage.says(event="ended", worker_id="policy/0.1", status=-9)
    assert until(lambda: running.poll(time.monotonic())) == [("policy/0.1", "ended by SIGKILL")]
    until(lambda: running.poll(time.monotonic()) or len(starts(stage)) == 2)
    second = starts(stage)[1]
    assert second["worker_id"] == "policy/0.2" and second["keys"] != first["keys"]
    assert not stage.keys.valid("policy/0.1") and stage.keys.valid("policy/0.2")


def test_a_worker_that_is_given_up_counts_as_ended_whether_its_node_hears_of_it_or_not(
    stage: Stage, running: RayCluster
) -> None:
    until(lambda: running.poll(time.monotonic()) or starts(stage))
    running.ready("policy/0.1", time.monotonic())
    running.kill("policy/0.1", "its link did not come back")
    assert not stage.keys.valid("policy/0.1"), "what it still sends is not read"
    assert running.poll(time.monotonic()) == [("policy/0.1", "its link did not come back")]
    until(lambda: running.poll(time.monotonic()) or len(starts(stage)) == 2)
    stage.says(event="ended", worker_id="policy/0.1", status=0)  # its node has heard of it after all
    stage.says(event="ended", worker_id="policy/0.2", why="its actor is gone")
    assert until(lambda: running.poll(time.monotonic())) == [("policy/0.2", "its actor is gone")]


def test_a_worker_that_cannot_work_as_configured_says_so(stage: Stage, running: RayCluster) -> None:
    until(lambda: running.poll(time.monotonic()) or starts(stage))
    stage.says(event="ended", worker_id="policy/0.1", status=MISCONFIGURED)
    until(lambda: running.poll(time.monotonic()))
    assert running.misconfigured.startswith("models.policy: policy/0.1 cannot work as configured")


def test_without_its_driver_nothing_is_lost_and_another_driver_takes_over(
    stage: Stage, running: RayCluster
) -> None:
    until(lambda: running.poll(time.monotonic()) or starts(stage))
    running.ready("policy/0.1", time.monotonic())
    stage.says()
    orders = until(
        lambda: [one for one in stage.heard() if "adopt" in one and not running.poll(time.monotonic())][1:]
    )
    assert orders[0]["adopt"] == {"policy/0": {**WHERE["policy/0"], "workers": ["policy/0.1"]}}
    assert stage.keys.valid("policy/0.1") and len(starts(stage)) == 1
    stage.says(event="ended", worker_id="policy/0.1", status=-9)
    assert until(lambda: running.poll(time.monotonic())) == [("policy/0.1", "ended by SIGKILL")]


def test_a_driver_that_cannot_be_started_now_is_tried_again_later(
    stage: Stage, running: RayCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    until(lambda: running.poll(time.monotonic()) or starts(stage))
    running.ready("policy/0.1", time.monotonic())
    monkeypatch.setattr(on_ray_cluster, "AGAIN_S", 0.01)
    command, tries = running._command, []
    monkeypatch.setattr(running, "_command", (str(tmp_path / "no_such_program"),))
    monkeypatch.setattr(log, "warning", lambda event, **fields: tries.append(event))
    stage.says()
    until(lambda: running.poll(time.monotonic()) or tries.count("driver_not_started") > 1)
    assert stage.keys.valid("policy/0.1"), "it works on"
    running.kill("policy/0.1", "a person says so")  # nobody can be told
    assert running.poll(time.monotonic()) == [("policy/0.1", "a person says so")]
    monkeypatch.setattr(running, "_command", command)
    until(lambda: running.poll(time.monotonic()) or len(starts(stage)) == 2)
    assert starts(stage)[1]["worker_id"] == "policy/0.2"


# -- what is asked of Ray ------------------------------------------------------------------------------------------

FACTORY: dict[str, Any] = {
    "server_cluster": {"num_servers": 2, "gpu_type": "h200", "cluster": "ray", "address": "10.0.0.1:6379"},
    "robot_fleet": [{"task": "pick", "num_robots": 1}],
    "pick": {
        "pipeline": {"action_period_ms": 400},
        "components": {"system1": {"model": "policy", "slo_ms": 300}},
    },
    "models": {
        "policy": {"backend": "emulated", "workers": 2, "options": {"profile": "/w/p.yaml"}, "sha256": {}}
    },
}


def test_without_a_schedule_every_worker_has_a_gpu_of_its_own_and_names_its_files() -> None:
    factory = factory_from(FACTORY, "test")
    placement = unplanned(factory)
    specs = [
        WorkerSpec(f"policy/{i}", "policy", "emulated", "", options={"profile": "/w/p.yaml"}) for i in (0, 1)
    ]
    assert [part_of(spec, placement) for spec in specs] == ["policy/0", "policy/1"]
    assert parts_of(factory, placement, specs) == [Part(f"policy/{i}", 1, ("/w/p.yaml",)) for i in (0, 1)]


def test_the_replicas_of_a_server_of_the_schedule_share_its_gpu_and_a_standby_knows_what_it_protects() -> (
    None
):
    factory = factory_from(FACTORY, "test")
    replicas = [
        Replica("gpu0", "policy", "gpu0"),
        Replica("gpu1:policy", "policy", "gpu1", standby=True),
        Replica("gpu1:other", "policy", "gpu1", standby=True),
    ]
    placement = Placement({one.id: one for one in replicas}, {}, standbys={"gpu0": ("gpu1:policy",)})
    specs = [WorkerSpec(f"{one.id}/0", "policy", "emulated", "") for one in replicas]
    assert parts_of(factory, placement, specs) == [
        Part("gpu0", 1),
        Part("gpu1", 1, protects=frozenset({"gpu0"})),
    ]


def test_a_cluster_that_other_machines_reach_needs_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    check_token("127.0.0.1:6379")
    with pytest.raises(RayError, match="RAY_AUTH_TOKEN") as error:
        check_token("10.0.0.1:6379")
    assert error.value.cause == "no_token"
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    check_token("10.0.0.1:6379")


@pytest.mark.parametrize("address", ["127.0.0.1:1", "127.0.0.1", "127.0.0.1:ray", "127.0.0.1:99999"])
def test_an_address_at_which_nothing_listens_is_refused_at_once(address: str) -> None:
    with pytest.raises(RayError, match="no Ray answers") as error:
        check_reachable(address)
    assert error.value.cause == "no_ray"


def test_without_ray_the_refusal_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    factory = factory_from(FACTORY, "test")
    with pytest.raises(RayError, match="pip install") as error:
        maker("ray")(factory, unplanned(factory))
    assert error.value.cause == "not_installed"


# -- another schedule -----------------------------------------------------------------------------------------------


def two(name: str = "gpu0") -> Placement:
    """A schedule of gpu0, or of this server beside it."""
    replicas = {one: Replica(one, "policy", one) for one in ("gpu0", name)}
    return Placement(replicas, {})


@pytest.fixture
def scaling(stage: Stage) -> Iterator[RayCluster]:
    factory = factory_from(FACTORY, "test")
    stage.answer(
        {**PLACED, "where": {"gpu0": {"name": "rosa/x/gpu0/1", "node": "n1", "address": "10.0.0.1"}}}
    )
    command = (sys.executable, "-I", "-S", "-c", DRIVER, str(stage.folder))
    further = further_of(factory)
    workers, parts = further(two(), ["gpu0"])
    cluster = RayCluster(workers, parts, "127.0.0.1:1", command=command, further=further)
    with contextlib.ExitStack() as undo:
        undo.callback(cluster.stop, 0.0)
        cluster.start("tcp://10.0.0.9:7000", stage.keys)
        until(lambda: cluster.poll(time.monotonic()) or starts(stage))
        yield cluster


def orders(stage: Stage, what: str) -> list[dict[str, Any]]:
    return [told for told in stage.heard() if told.get("do") == what]


def test_a_server_that_is_added_gets_a_place_and_then_its_worker(stage: Stage, scaling: RayCluster) -> None:
    assert scaling.add(two("gpu1"), ["gpu1"]) == ["gpu1/0"]
    (told,) = until(lambda: scaling.poll(time.monotonic()) or orders(stage, "place"))
    assert [part["name"] for part in told["parts"]] == ["gpu1"] and told["parts"][0]["gpus"] == 1
    for _ in range(20):
        assert not scaling.poll(time.monotonic())
    assert len(starts(stage)) == 1, "it has no place yet"
    where = {
        name: {"name": f"rosa/x/{name}", "node": "n1", "address": "10.0.0.1"} for name in ("gpu0", "gpu1")
    }
    stage.says(event="added", where=where)
    until(lambda: scaling.poll(time.monotonic()) or len(starts(stage)) == 2)
    assert [spec["worker_id"] for spec in starts(stage)] == ["gpu0/0.1", "gpu1/0.1"]

    scaling.drop("gpu1/0")
    assert scaling.poll(time.monotonic()) == [("gpu1/0.1", "it is not in the new schedule")]
    until(lambda: scaling.poll(time.monotonic()) or orders(stage, "release"))
    assert orders(stage, "release") == [{"do": "release", "part": "gpu1"}]
    scaling.add(two("gpu1"), ["gpu1"])
    stage.says(event="added", where=where)
    until(lambda: scaling.poll(time.monotonic()) or len(starts(stage)) == 3)
    assert starts(stage)[2]["worker_id"] == "gpu1/0.2", "no id is given twice"


def test_a_server_for_which_there_is_no_place_counts_as_ended_and_says_why(
    stage: Stage, scaling: RayCluster
) -> None:
    scaling.add(two("gpu1"), ["gpu1"])
    stage.says(event="not_added", parts=["gpu1"], cause="too_few_gpus", words="one GPU is missing")
    lost = until(lambda: scaling.poll(time.monotonic()))
    assert lost == [("gpu1/0.1", "one GPU is missing (too_few_gpus)")]
    scaling.drop("gpu1/0")
    assert not orders(stage, "release"), "there is nothing to give back"


def test_what_was_asked_of_a_driver_that_has_ended_is_asked_of_the_next(
    stage: Stage, scaling: RayCluster
) -> None:
    scaling.add(two("gpu1"), ["gpu1"])
    until(lambda: scaling.poll(time.monotonic()) or orders(stage, "place"))
    stage.says()
    until(lambda: scaling.poll(time.monotonic()) or len(orders(stage, "place")) == 2)
    adopted = [told for told in stage.heard() if told.get("adopt")]
    assert [part["name"] for part in adopted[0]["parts"]] == ["gpu0"] and list(adopted[0]["adopt"]) == [
        "gpu0"
    ]


def test_without_a_factory_nothing_can_be_added(running: RayCluster) -> None:
    with pytest.raises(ClusterError) as error:
        running.add(two("gpu1"), ["gpu1"])
    assert error.value.cause == "not_here"
