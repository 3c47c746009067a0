"""Which GPU each server of a schedule gets on this machine: a worker sees one GPU, its own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import ClassVar

from rosa_contract.config.factory import Factory
from rosa_contract.errors import CausedError
from rosa_server.plan.placement import Placement

MEMORY = Path("/proc/meminfo")
FREE_QUERY = ("nvidia-smi", "--query-gpu=index,name,memory.free", "--format=csv,noheader,nounits")
QUERY = ("nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader")


class GpuError(CausedError):
    """The GPUs of this machine cannot run the schedule."""

    CAUSES: ClassVar = {"too_few_gpus": "the schedule has more servers than this machine has GPUs"}


def visible_gpus() -> list[str]:
    """The GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them; empty where there are none."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        return [name.strip() for name in chosen.split(",") if name.strip()]
    try:
        told = subprocess.run(QUERY, capture_output=True, text=True, timeout=30, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    return told.split()


def free_memory_mb(gpu_type: str) -> dict[str, float]:
    """What is free now, by GPU; of this machine's own memory where models run on its CPU. Empty where nothing tells."""
    try:
        if gpu_type == "cpu":
            (line,) = (line for line in MEMORY.read_text().splitlines() if line.startswith("MemAvailable:"))
            return {"cpu": float(line.split()[1]) * 1.024e-3}
        told = subprocess.run(FREE_QUERY, capture_output=True, text=True, timeout=30, check=True).stdout
        rows = [line.split(",") for line in told.splitlines() if line.strip()]
        return {f"{index.strip()} {name.strip()}": float(mib) * 1.048576 for index, name, mib in rows}
    except (OSError, ValueError, subprocess.SubprocessError):
        return {}


def assign(factory: Factory, placement: Placement, gpus: list[str]) -> dict[str, str]:
    """Server -> GPU, in the order of the schedule. Empty without a schedule, on CPUs, and where there is no GPU.

    Raises `GpuError` when there are GPUs, but too few.
    """
    if placement.routes is None or factory.server_cluster.gpu_type == "cpu" or not gpus:
        return {}
    servers = list(dict.fromkeys(replica.server for replica in placement.replicas.values()))
    if len(servers) > len(gpus):
        raise GpuError(
            "too_few_gpus",
            f"the schedule has {len(servers)} servers and this machine shows {len(gpus)} GPUs; plan for fewer with"
            f" server_cluster.num_servers, or set CUDA_VISIBLE_DEVICES to nothing to run models that need none",
        )
    return dict(zip(servers, gpus, strict=False))
