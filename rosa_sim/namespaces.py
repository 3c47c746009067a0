"""Machines on one: network namespaces with a cable between two of them, or several at one switch."""

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


@contextmanager
def machines(count: int) -> Iterator[list[Machine]]:
    """`count` machines at one switch, each of which reaches every other one and nothing else."""
    tag = f"{os.getpid() % 100_000:05d}"
    switch = f"rosa-s-{tag}"
    made = [Machine(f"rosa-m{i}-{tag}", f"10.79.0.{i + 1}") for i in range(count)]
    try:
        for name in (switch, *(one.name for one in made)):
            _ip("netns", "add", name)
        _ip("-n", switch, "link", "add", "br0", "type", "bridge")
        _ip("-n", switch, "link", "set", "br0", "up")
        for index, one in enumerate(made):
            port, cable = f"p{index}", f"eth{index}"
            ends = ("type", "veth", "peer", cable, "netns", one.name)
            _ip("-n", switch, "link", "add", port, *ends)
            _ip("-n", switch, "link", "set", port, "master", "br0")
            _ip("-n", switch, "link", "set", port, "up")
            _ip("-n", one.name, "addr", "add", f"{one.address}/24", "dev", cable)
            _ip("-n", one.name, "link", "set", cable, "up")
            _ip("-n", one.name, "link", "set", "lo", "up")
        yield made
    finally:
        for name in (*(one.name for one in made), switch):
            subprocess.run(["ip", "netns", "del", name], capture_output=True, timeout=10)


def cut_between(one: Machine, other: Machine) -> None:
    """Nothing gets from one of them to the other; all else goes on."""
    for here, there in ((one, other), (other, one)):
        _ip("-n", here.name, "route", "add", "blackhole", f"{there.address}/32")


def mend_between(one: Machine, other: Machine) -> None:
    for here, there in ((one, other), (other, one)):
        _ip("-n", here.name, "route", "del", "blackhole", f"{there.address}/32")


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, timeout=10)
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr}"
