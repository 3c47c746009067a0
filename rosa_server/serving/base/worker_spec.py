"""What starts a worker process and what it says by its exit status: all that a cluster has to know of one."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

from rosa_contract.errors import CausedError
from rosa_server.serving.base.worker_keys import WorkerKeyPair

OPTIONS, KEYS = "ROSA_WORKER_OPTIONS", "ROSA_WORKER_KEYS"
FAILED_TO_START = 70  # exit status of one whose backend raised, as EX_SOFTWARE
WORKER = "rosa_server.serving.worker.worker"
MIN_PYTHON = (3, 10)
SERVERS_OWN = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
MODEL_BROKEN = 71  # exit status of one whose model fails every call, as EX_OSERR
MISCONFIGURED = 78  # exit status of a worker that no restart can help, as EX_CONFIG in sysexits.h


class ReleaseError(CausedError):
    """What runs is not of one release."""

    CAUSES: ClassVar = {
        "other_release": "the files of the worker are not those of the server, or compiled modules were made of others"
    }


# The first thing that another Python runs: it may be too old, or have no worker, and says so in one line. The current
# folder comes last: its modules are found, and the environment's own worker is the one that runs.
BOOT = f"""
import sys
def end(words):
    sys.stderr.write(sys.executable + ": " + words + chr(10))
    sys.exit({MISCONFIGURED})
if sys.version_info < {MIN_PYTHON}:
    end("a worker needs Python {".".join(map(str, MIN_PYTHON))} or newer, this is " + sys.version.split()[0])
sys.path.append(sys.path.pop(0))
try:
    from {WORKER} import main
except ImportError as error:
    end(str(error) + "; `rosa env` installs what a worker needs")
sys.exit(main())
"""


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
    python: str = ""  # interpreter of the model's own environment; empty: the server's
    release: str = ""  # of the server, which its own has to be; empty: it is not asked
    adapter: dict[str, Any] = field(
        default_factory=dict
    )  # `adapters.resolving.Resolved` as data; empty: none
    parent_pid: int = 0  # the worker ends with this process; 0: with none
    gpu: str = ""  # the only GPU that it sees; empty: all
    far: bool = False  # it shares no memory with its gateway
    epoch: int = 0  # number of the schedule that it is started for; it says it in whatever it sends
    log_fd: int = 2  # where its events go; what its libraries print goes to its standard output and error
    shm_fds: Sequence[int] = ()  # shared memory with a gateway on the same machine, see shared_memory.py
    keys: WorkerKeyPair | None = None  # of this life, where the endpoint is reached over a network

    def command(self, *words: str) -> list[str]:
        """Without options and keys: every user of a machine may read its command lines."""
        told = {name: value for name, value in asdict(self).items() if name not in ("options", "keys")}
        start = [self.python, "-c", BOOT] if self.python else [sys.executable, "-m", WORKER]
        return [*start, "--spec", json.dumps(told), *words]

    def environment(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """The environment of the process: what it inherits, and, for its user only, options and keys.

        Where another Python looks for modules is its own business.
        """
        left = SERVERS_OWN if self.python else ()
        kept = {name: value for name, value in inherited.items() if name not in left}
        gpu = {"CUDA_VISIBLE_DEVICES": self.gpu} if self.gpu else {}
        keys = {KEYS: json.dumps(asdict(self.keys))} if self.keys is not None else {}
        return {**kept, OPTIONS: json.dumps(self.options), **keys, **gpu}


def check_release(server: str) -> None:
    """Raise `ReleaseError` where this worker is not of the server's release."""
    from rosa_server.serving.base.release import release

    if release() != server:
        raise ReleaseError(
            "other_release",
            f"the worker in {sys.prefix} is of release {release()}, its server of {server}; `rosa env` brings the"
            " worker's files up to date",
        )


def spec_from(text: str, environment: MutableMapping[str, str]) -> WorkerSpec:
    """What `command` and `environment` tell a process. The options are taken out, so that no child inherits them."""
    told = json.loads(text)
    if told.get("release"):  # before anything else is read: another release may have other fields
        check_release(told["release"])
    options, keys = environment.pop(OPTIONS, "{}"), environment.pop(KEYS, "")
    pair = WorkerKeyPair(**json.loads(keys)) if keys else None
    return WorkerSpec(**told, options=json.loads(options), keys=pair)
