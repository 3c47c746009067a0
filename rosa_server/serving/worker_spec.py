"""What starts a worker process and what it says by its exit status: all that a cluster has to know of one."""

from __future__ import annotations

import json
import sys
from collections.abc import MutableMapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

OPTIONS = "ROSA_WORKER_OPTIONS"
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
    adapter: dict[str, Any] = field(
        default_factory=dict
    )  # `adapters.resolving.Resolved` as data; empty: none
    parent_pid: int = 0  # the worker ends with this process; 0: with none
    gpu: str = ""  # the only GPU that it sees; empty: all
    far: bool = False  # it shares no memory with its gateway
    log_fd: int = 2  # where its events go; what its libraries print goes to its standard output and error
    shm_fds: Sequence[int] = ()  # shared memory with a gateway on the same machine, see shared_memory.py

    def command(self) -> list[str]:
        """Without the options: every user of a machine may read its command lines."""
        told = {name: value for name, value in asdict(self).items() if name != "options"}
        return [sys.executable, "-m", "rosa_server.serving.worker", "--spec", json.dumps(told)]

    def environment(self) -> dict[str, str]:
        """What is added to the environment of the process: the options, for its user only."""
        return {OPTIONS: json.dumps(self.options)}


def spec_from(text: str, environment: MutableMapping[str, str]) -> WorkerSpec:
    """What `command` and `environment` tell a process. The options are taken out, so that no child inherits them."""
    spec = WorkerSpec(**json.loads(text))
    options = environment.pop(OPTIONS, "")
    return replace(spec, options=json.loads(options)) if options else spec
