"""A worker that cannot be started is a lost worker with a reason, and the next try comes later."""

from __future__ import annotations

import errno
import logging
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from rosa_contract.config.factory import parse_factory
from rosa_server.cluster.gpus import GpuError
from rosa_server.cluster.local import LocalCluster, make
from rosa_server.plan.placement import Placement, Replica
from rosa_server.serving.base.log import LOGGER
from rosa_server.serving.base.worker_keys import WorkerKeys
from rosa_server.serving.base.worker_spec import MISCONFIGURED, WorkerSpec

SPEC = WorkerSpec("policy/0", "policy", "emulated", "ipc:///nowhere")


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize(
    ("owner", "call", "error"),
    [
        (os, "memfd_create", OSError(errno.EMFILE, "Too many open files")),
        (os, "ftruncate", OSError(errno.ENOSPC, "No space left on device")),
        (subprocess, "Popen", BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")),
        (subprocess, "Popen", FileNotFoundError(errno.ENOENT, "No such file or directory")),
    ],
    ids=["no descriptor", "no memory", "no process", "no program"],
)
@pytest.mark.skipif(sys.platform != "linux", reason="counts descriptors in /proc and needs memfd")
def test_a_failed_start_is_a_lost_worker_and_is_tried_again_later(
    monkeypatch: pytest.MonkeyPatch, owner: Any, call: str, error: OSError
) -> None:
    tries = []

    def fail(*_: Any, **__: Any) -> None:
        tries.append(1)
        raise error

    cluster = LocalCluster([SPEC])
    monkeypatch.setattr(owner, call, fail)
    # A test before this one may have used multiprocessing, whose resource tracker runs as long as this process.
    before, processes = descriptors(), psutil.Process().children()
    assert cluster.poll(0.0) == [("policy/0.1", f"could not be started: {error}")]
    assert cluster.poll(0.01) == [("policy/0.2", f"could not be started: {error}")]
    for step in range(2, 100):
        cluster.poll(step / 100)
    assert len(tries) == 4, "0.2 s and 0.4 s lie between the next ones"
    assert psutil.Process().children() == processes
    assert descriptors() == before


class Ended:
    """A process that has ended. Its number is nobody's."""

    pid = 0
    stdin = None

    def __init__(self, returncode: int | None) -> None:
        """None: it still runs."""
        self.returncode = returncode

    def poll(self) -> int | None:
        return self.returncode


def always(monkeypatch: pytest.MonkeyPatch, process: Ended) -> None:
    """Every worker that is started is this process."""
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: process)


def test_an_heir_that_cannot_be_started_is_given_up_and_takes_no_place_later() -> None:
    """Whoever ordered it hears that the old worker goes on: another try would replace that one after all."""
    cluster, keys = LocalCluster([SPEC]), WorkerKeys()
    cluster.hold("policy/0", True)  # the old one, which need not run for this
    cluster.start("ipc:///nowhere", keys)
    heir = cluster.bequeath("policy/0", lambda spec: replace(spec, python="/nowhere/python"))
    [(lost, why)] = cluster.poll(0.0)
    assert lost == heir and "could not be started" in why
    assert cluster.poll(1000.0) == [], "it is not tried again"
    assert not keys.valid(heir)
    assert cluster.bequeath("policy/0", lambda spec: spec), "another one may be ordered"


def test_an_heir_that_is_killed_before_it_was_started_never_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a rollout is cancelled at once: it waits for the end of its new worker."""
    always(monkeypatch, Ended(None))
    cluster = LocalCluster([replace(SPEC, far=True)])
    assert cluster.poll(0.0) == []
    heir = cluster.bequeath("policy/0", lambda spec: spec)
    cluster.kill(heir, "the rollout was cancelled")
    assert cluster.poll(0.1) == [(heir, "the rollout was cancelled")]
    assert cluster.poll(1000.0) == []
    cluster.ready(heir, 1000.0)
    assert cluster.bequeath("policy/0", lambda spec: spec) == "policy/0.3", "the old one is still there"


def test_a_worker_that_is_misconfigured_says_so_also_when_its_first_start_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody waits for ever for a server that cannot get ready."""
    cluster = LocalCluster([replace(SPEC, far=True)])
    ways = iter([OSError(errno.ENOMEM, "Cannot allocate memory"), Ended(MISCONFIGURED)])

    def start(*_: Any, **__: Any) -> Ended:
        way = next(ways)
        if isinstance(way, OSError):
            raise way
        return way

    monkeypatch.setattr(subprocess, "Popen", start)
    assert "Cannot allocate memory" in cluster.poll(0.0)[0][1]
    assert cluster.misconfigured == ""
    assert cluster.poll(0.1) == []
    assert cluster.poll(0.2) == [("policy/0.2", "cannot work as configured")]
    assert "models.policy: policy/0.2 cannot work as configured" in cluster.misconfigured


def test_a_worker_that_an_unnamed_signal_ends_ends_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = LocalCluster([replace(SPEC, far=True)])
    always(monkeypatch, Ended(-40))
    assert cluster.poll(0.0) == []
    assert cluster.poll(0.1) == [("policy/0.1", "ended by signal 40")]


def test_the_status_of_a_wrong_configuration_means_nothing_once_a_worker_was_ready(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`sys.exit(78)` in `infer` is a fault like any other."""
    cluster = LocalCluster([replace(SPEC, far=True)])
    always(monkeypatch, Ended(MISCONFIGURED))
    cluster.poll(0.0)
    cluster.ready("policy/0.1", 0.05)
    assert cluster.poll(0.1) == [("policy/0.1", "ended with status 78")]
    assert cluster.misconfigured == ""
    cluster.ready("policy/0.2", 0.2)
    assert cluster.poll(0.4) == [("policy/0.2", "ended with status 78")], "it was started again"


def test_five_starts_of_which_none_gets_ready_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = LocalCluster([replace(SPEC, far=True)])
    always(monkeypatch, Ended(70))
    lost: list[tuple[str, str]] = []
    step = 0
    while len(lost) < 4:
        lost += cluster.poll(step / 20)
        step += 1
    assert cluster.misconfigured == ""
    while len(lost) < 5:
        lost += cluster.poll(step / 20)
        step += 1
    assert "none of 5 starts made it ready" in cluster.misconfigured
    assert "models.policy: policy/0.5 ended with status 70" in cluster.misconfigured


def test_a_worker_that_was_ready_once_is_tried_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = LocalCluster([replace(SPEC, far=True)])
    always(monkeypatch, Ended(70))
    cluster.poll(0.0)
    cluster.ready("policy/0.1", 0.0)
    for step in range(1000):
        cluster.poll(float(step))
    assert cluster.misconfigured == ""


def test_a_worker_that_takes_long_to_start_is_reported_ever_less_often(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = LocalCluster([replace(SPEC, far=True)])
    always(monkeypatch, Ended(None))
    with caplog.at_level(logging.WARNING, LOGGER.name):
        for second in range(500):
            cluster.poll(float(second))
    seconds = [
        record.fields["seconds"] for record in caplog.records if record.message == "worker_still_starting"
    ]  # type: ignore[attr-defined]
    assert seconds == [60, 120, 240, 480]
    cluster.ready("policy/0.1", 500.0)
    caplog.clear()
    with caplog.at_level(logging.WARNING, LOGGER.name):
        for second in range(500, 3000):
            cluster.poll(float(second))
    assert not caplog.records


FACTORY = parse_factory("""
server_cluster: {num_servers: 2, gpu_type: NVIDIA H200}
robot_fleet: [{task: pick, num_robots: 2}]
pick:
  pipeline: {action_period_ms: 400}
  components: {system1: {model: policy, slo_ms: 300}}
models: {policy: {backend: emulated, options: {latency_ms: 5}}}
""")
PLACEMENT = Placement(
    {name: Replica(name, "policy", name) for name in ("gpu0", "gpu1")},
    {"pick/0": {"system1": "gpu0"}, "pick/1": {"system1": "gpu1"}},
)
ONE = Placement({"gpu0": PLACEMENT.replicas["gpu0"]}, {"pick/0": {"system1": "gpu0"}})


class Running(Ended):
    """A process that runs until it is killed."""

    def __init__(self) -> None:
        super().__init__(None)

    def kill(self) -> None:
        self.returncode = -9


def workers_of(cluster: LocalCluster) -> dict[str, tuple[str, str]]:
    """Name -> GPU and endpoint."""
    return {one.spec.worker_id: (one.spec.gpu, one.spec.endpoint) for one in cluster._workers}


def test_a_server_that_is_added_gets_a_gpu_that_nobody_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,7")
    cluster = make(FACTORY, ONE)
    cluster.start("ipc:///here", None)
    assert cluster.add(PLACEMENT, ["gpu1"]) == ["gpu1/0"]
    assert workers_of(cluster) == {"gpu0/0": ("5", "ipc:///here"), "gpu1/0": ("7", "ipc:///here")}
    third = replace(PLACEMENT, replicas={**PLACEMENT.replicas, "gpu2": Replica("gpu2", "policy", "gpu2")})
    with pytest.raises(GpuError, match="0 of 2 are free") as caught:
        cluster.add(third, ["gpu2"])
    assert caught.value.cause == "too_few_gpus" and len(workers_of(cluster)) == 2
    cluster.drop("gpu0/0")
    assert cluster.add(third, ["gpu2"]) == ["gpu2/0"] and workers_of(cluster)["gpu2/0"][0] == "5"


def test_a_machine_whose_last_server_is_gone_still_counts_its_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,7")
    cluster = make(FACTORY, ONE)
    cluster.start("ipc:///here", None)
    cluster.drop("gpu0/0")
    assert cluster.room() == 2
    cluster.add(PLACEMENT, ["gpu0", "gpu1"])
    assert [gpu for gpu, _ in workers_of(cluster).values()] == ["5", "7"] and cluster.room() == 0


def test_once_robots_are_served_nobody_waits_for_the_gpus_to_be_listed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    lister = tmp_path / "nvidia-smi"
    lister.write_text(f"#!/bin/sh\necho asked >> {tmp_path}/asked\necho GPU-5\necho GPU-7\n")
    lister.chmod(0o700)
    cluster = make(FACTORY, ONE)
    cluster.start("ipc:///here", None)
    asked = (tmp_path / "asked").read_text()
    assert cluster.room() == 1 and cluster.add(PLACEMENT, ["gpu1"]) == ["gpu1/0"]
    assert [gpu for gpu, _ in workers_of(cluster).values()] == ["GPU-5", "GPU-7"]
    assert (tmp_path / "asked").read_text() == asked


class Lingering(Running):
    """A process that takes a while to end."""

    def kill(self) -> None: ...


def test_a_worker_starts_on_the_gpu_of_a_dropped_one_when_that_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,7")
    monkeypatch.delattr(os, "memfd_create", raising=False)
    lingering, following = Lingering(), Running()
    always(monkeypatch, lingering)
    cluster = make(FACTORY, ONE)
    cluster.start("ipc:///here", None)
    cluster.poll(0.0)
    always(monkeypatch, following)
    assert cluster.room() == 1 and cluster.drop("gpu0/0") == ["gpu0/0.1"]
    assert cluster.room() == 2, "whoever plans counts both"
    assert cluster.add(PLACEMENT, ["gpu1"]) == ["gpu1/0"]
    assert cluster.add(PLACEMENT, ["gpu0"]) == ["gpu0/0"] and cluster.room() == 0
    assert [one.spec.gpu for one in cluster._workers] == ["5", "7", "5"], "first one that is in use no more"
    cluster.poll(0.1)
    cluster.poll(30.0)
    assert [one.process for one in cluster._workers] == [lingering, following, None]
    lingering.returncode = -9
    assert ("gpu0/0.1", "it is not in the new schedule") in cluster.poll(30.1)
    assert [(one.worker_id, one.process) for one in cluster._workers] == [
        ("gpu1/0.1", following),
        ("gpu0/0.2", following),
    ]


def test_a_worker_that_is_dropped_ends_for_good_and_its_ids_do_not_come_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.delattr(os, "memfd_create", raising=False)  # no memory is shared with a process that is none
    process = Running()
    always(monkeypatch, process)
    cluster = make(FACTORY, PLACEMENT)
    cluster.poll(0.0)
    cluster.drop("gpu1/0")
    assert process.returncode == -9 and "gpu1/0" in workers_of(cluster), "until it has ended"
    assert ("gpu1/0.1", "it is not in the new schedule") in cluster.poll(0.1)
    assert set(workers_of(cluster)) == {"gpu0/0"}
    process.returncode = None
    cluster.add(PLACEMENT, ["gpu1"])
    cluster.poll(0.2)
    assert cluster._workers.find("gpu1/0.2") is not None
