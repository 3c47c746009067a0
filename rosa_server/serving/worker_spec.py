"""What starts a worker process and what it says by its exit status: all that a cluster has to know of one."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

FAILED_TO_START = 70  # exit status of one whose backend raised, as EX_SOFTWARE
MISCONFIGURED = 78  # exit status of a worker that no restart can help, as EX_CONFIG in sysexits.h


@dataclass(frozen=True)
class WorkerSpec:
    """What a worker process is told at its start."""

    worker_id: str
    model: str
    backend: str
    endpoint: str  # where its gateway listens for workers
    max_batch: int | None = None
    options: dict[str, Any] = field(default_factory=dict)
    sha256: dict[str, str] = field(default_factory=dict)  # of its files
    parent_pid: int = 0  # the worker ends with this process; 0: with none
    gpu: str = ""  # the only GPU that it sees; empty: all
    far: bool = False  # it shares no memory with its gateway
    log_fd: int = 2  # where its events go; what its libraries print goes to its standard output and error
    shm_fds: Sequence[int] = ()  # shared memory with a gateway on the same machine, see shared_memory.py

    def command(self) -> list[str]:
        return [sys.executable, "-m", "rosa_server.serving.worker", "--spec", json.dumps(asdict(self))]
