"""What starts a frontend's process, and what that process tells its server."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass

from rosa_contract.config.frontends import Frontend
from rosa_contract.config.strict import Reader


@dataclass(frozen=True)
class FrontendSpec:
    """One frontend in front of one gateway."""

    name: str  # in the factory file
    frontend: Frontend
    gateway: str  # where its clients' robots connect
    slo_ms: float  # the deadline of a call
    keys: str = ""  # the gateway's key folder; empty: anybody may connect
    life: int = 1  # how often its process was started: names of an earlier life may still be taken
    parent_pid: int = 0  # it ends with this process; 0: with none
    log_fd: int = 2  # where its events go
    status_fd: int = -1  # where it says that it listens, and counts; -1: nowhere
    node: str = ""  # that of its gateway, where several share a schedule and each has such a frontend

    def command(self) -> list[str]:
        """What starts it. No secret is in it: every user of a machine may read its command lines."""
        return [sys.executable, "-m", "rosa_server.frontends.process", "--spec", json.dumps(asdict(self))]


def spec_from(text: str) -> FrontendSpec:
    """What `command` tells a process."""
    told = json.loads(text)
    reader = Reader("frontend")
    frontend = reader.section(Frontend, "", told.pop("frontend"))
    reader.finish()
    return FrontendSpec(frontend=frontend, **told)


def clients_of(frontend: str, node: str) -> str:
    """How the names of a frontend's clients begin, those without keys."""
    return f"{frontend}-{node}" if node else frontend


def reachable(endpoint: str) -> str:
    """Where a process of the same machine connects to a gateway that listens on `endpoint`."""
    for everywhere, here in (
        ("//0.0.0.0:", "//127.0.0.1:"),
        ("//*:", "//127.0.0.1:"),
        ("//[::]:", "//[::1]:"),
    ):
        endpoint = endpoint.replace(everywhere, here)
    return endpoint
