"""Free ports for servers of tests, benchmarks and faults."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import socket
from collections import deque
from pathlib import Path

RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
EPHEMERAL = 32768  # the first port that Linux gives away by itself
LOWEST = 10_000  # below it are the ports of well-known programs, and those of ROSA and of DDS
KEPT = 128  # the newest ports of this process; whoever asked for older ones listens by now, or has ended
TRIES = 1000

_chance = random.SystemRandom()  # whatever a test has seeded
_kept: deque[int] = deque()  # descriptors, open until this process ends


def free_ports(count: int) -> list[int]:
    """Ports of this machine that nobody listens on now; all different.

    Between this and the start of the server that uses one, a second may pass, or many. So they are none that the
    kernel gives to whoever connects, or binds port 0, and no other process gets them here meanwhile.
    """
    return [_free() for _ in range(count)]


def free_port() -> int:
    return free_ports(1)[0]


def _free() -> int:
    for _ in range(TRIES):
        port = _chance.randrange(LOWEST, _first_ephemeral())
        if (held := _reserved(port)) is None:
            continue
        if _nobody_listens(port):
            _kept.append(held.detach())
            if len(_kept) > KEPT:
                os.close(_kept.popleft())
            return port
        held.close()
    raise OSError(
        errno.EADDRINUSE, f"no free port between {LOWEST} and {_first_ephemeral()} in {TRIES} tries"
    )


def _reserved(port: int) -> socket.socket | None:
    """What keeps other processes from it: a name that the kernel frees when this one ends. None: another has it."""
    held = socket.socket(socket.AF_UNIX)
    try:
        held.bind(f"\0rosa-port-{port}")  # abstract, and so of the network namespace, as ports are
    except OSError:
        held.close()
        return None
    return held


def _nobody_listens(port: int) -> bool:
    with socket.socket() as probe, contextlib.suppress(OSError):
        probe.bind(("127.0.0.1", port))
        return True
    return False


def _first_ephemeral() -> int:
    """Where the kernel's own ports begin; the default of Linux where they begin so low that too few are left."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        first = int(RANGE.read_text().split()[0])
        if first > LOWEST + TRIES:
            return first
    return EPHEMERAL
