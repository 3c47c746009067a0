"""Free ports for servers of tests, benchmarks and faults."""

from __future__ import annotations

import socket


def free_ports(count: int) -> list[int]:
    """Ports of this machine that nobody listens on now; all different."""
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]
    finally:
        for probe in probes:
            probe.close()


def free_port() -> int:
    return free_ports(1)[0]
