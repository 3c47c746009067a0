"""Each server of a schedule has a GPU of its own, and its worker sees no other."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from rosa_contract.config.factory import Factory, parse_factory
from rosa_server.cluster import gpus, local
from rosa_server.cluster.local import LocalCluster, worker_specs
from rosa_server.plan.placement import Placement, Replica, unplanned

FACTORY = """
server_cluster: {num_servers: 3, gpu_type: TYPE}
robot_fleet: [{task: pick, num_robots: 1}]
pick:
  pipeline: {action_period_ms: 400}
  components:
    system1: {model: policy, slo_ms: 300}
    safety: {model: guard, slo_ms: 500, freq_hz: 2}
models:
  policy: {backend: emulated}
  guard: {backend: emulated}
"""
PLACEMENT = Placement(
    {
        "gpu0": Replica("gpu0", "policy", "gpu0"),
        "gpu1": Replica("gpu1", "guard", "gpu1"),
        "spare/policy": Replica("spare/policy", "policy", "spare", standby=True),
        "spare/guard": Replica("spare/guard", "guard", "spare", standby=True),
    },
    routes={"pick/0": {"system1": "gpu0", "safety": "gpu1"}},
)


def factory(gpu_type: str = "NVIDIA H200") -> Factory:
    return parse_factory(FACTORY.replace("TYPE", gpu_type))


def test_the_models_of_a_standby_server_share_its_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6,7")
    specs = worker_specs(factory(), PLACEMENT, "ipc://x")
    assert {spec.worker_id: spec.gpu for spec in specs} == {
        "gpu0/0": "4",
        "gpu1/0": "5",
        "spare/policy/0": "6",
        "spare/guard/0": "6",
    }


def test_too_few_gpus_are_named_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    with pytest.raises(gpus.GpuError, match="3 servers and this machine shows 2 GPUs") as error:
        worker_specs(factory(), PLACEMENT, "ipc://x")
    assert error.value.cause == "too_few_gpus"


@pytest.mark.parametrize("case", ["cpu", "no GPU", "no schedule"])
def test_nobody_is_bound_where_there_is_nothing_to_bind_to(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "" if case == "no GPU" else "0")
    one = factory("cpu" if case == "cpu" else "NVIDIA H200")
    placement = unplanned(one) if case == "no schedule" else PLACEMENT
    assert {spec.gpu for spec in worker_specs(one, placement, "ipc://x")} == {""}


def test_the_driver_is_asked_when_the_environment_says_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpus.visible_gpus() == []
    fake = tmp_path / "nvidia-smi"
    fake.write_text("#!/bin/sh\necho GPU-aaa\necho GPU-bbb\n")
    fake.chmod(0o755)
    assert gpus.visible_gpus() == ["GPU-aaa", "GPU-bbb"]
    fake.write_text("#!/bin/sh\nexit 9\n")
    assert gpus.visible_gpus() == []


def test_a_worker_is_started_with_its_gpu_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2")
    seen: list[dict[str, str] | None] = []

    class Started:
        pid = 1

        def __init__(self, command: list[str], **options: Any) -> None:
            seen.append(options["env"])

        def poll(self) -> None:
            return None

    monkeypatch.setattr(local.subprocess, "Popen", Started)
    specs = worker_specs(factory(), PLACEMENT, "ipc://x")
    cluster = LocalCluster(specs)
    cluster.poll(0.0)
    for spec in specs:
        shm = cluster.shm(f"{spec.worker_id}.1")
        assert shm is not None
        shm.close()
    assert [env and env["CUDA_VISIBLE_DEVICES"] for env in seen] == ["0", "1", "2", "2"]


def test_models_that_take_turns_see_the_same_gpu() -> None:
    replicas = {
        name: Replica(f"gpu0-{name}", model, "gpu0", takes_turns=True)
        for name, model in (("system1", "policy"), ("safety", "guard"))
    }
    placement = Placement({one.id: one for one in replicas.values()}, routes=PLACEMENT.routes)
    assert gpus.assign(factory(), placement, ["GPU-a"]) == {"gpu0": "GPU-a"}


def test_free_memory_is_asked_of_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    told = "0, NVIDIA H200, 100000\n1, NVIDIA H200, 50\n"
    done = subprocess.CompletedProcess((), 0, told, "")
    monkeypatch.setattr(gpus.subprocess, "run", lambda *_, **__: done)
    assert gpus.free_memory_mb("NVIDIA H200") == pytest.approx(
        {"0 NVIDIA H200": 104857.6, "1 NVIDIA H200": 52.4288}
    )


def test_without_a_driver_free_memory_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(*_: Any, **__: Any) -> None:
        raise FileNotFoundError("nvidia-smi")

    monkeypatch.setattr(gpus.subprocess, "run", absent)
    assert gpus.free_memory_mb("NVIDIA H200") == {}


def test_free_memory_of_a_cpu_is_what_the_kernel_can_give(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:    2000000 kB\n")
    monkeypatch.setattr(gpus, "MEMORY", tmp_path / "meminfo")
    assert gpus.free_memory_mb("cpu") == {"cpu": 2048.0}
