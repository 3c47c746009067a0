"""Two machines on one: network namespaces with a cable between them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Machine:
    """A network namespace with one address."""

    name: str
    address: str

    def command(self, *words: str) -> list[str]:
        """`words`, run on this machine."""
        return ["ip", "netns", "exec", self.name, *words]


def denied() -> str:
    """Why this machine makes no network namespaces; empty when it does."""
    name = f"rosa-try-{os.getpid()}"
    try:
        made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, timeout=10)
    except OSError as error:
        return f"ip: {error}"
    if made.returncode:
        return f"ip netns add: {made.stderr.strip()}"
    _ip("netns", "del", name)
    return ""


@contextmanager
def two_machines() -> Iterator[tuple[Machine, Machine]]:
    """Connected to each other and to nothing else."""
    tag = f"{os.getpid() % 100_000:05d}"
    one, two = Machine(f"rosa-a-{tag}", "10.78.0.1"), Machine(f"rosa-b-{tag}", "10.78.0.2")
    try:
        for machine in (one, two):
            _ip("netns", "add", machine.name)
        _ip(
            "link",
            "add",
            f"ra{tag}",
            "netns",
            one.name,
            "type",
            "veth",
            "peer",
            f"rb{tag}",
            "netns",
            two.name,
        )
        for machine, cable in ((one, f"ra{tag}"), (two, f"rb{tag}")):
            _ip("-n", machine.name, "addr", "add", f"{machine.address}/24", "dev", cable)
            _ip("-n", machine.name, "link", "set", cable, "up")
            _ip("-n", machine.name, "link", "set", "lo", "up")
        yield one, two
    finally:
        for machine in (one, two):
            subprocess.run(["ip", "netns", "del", machine.name], capture_output=True, timeout=10)


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, timeout=10)
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr}"
