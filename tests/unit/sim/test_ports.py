"""A port that was found free stays free until its server binds it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from rosa_sim import ports
from rosa_sim.ports import free_ports


def test_ports_can_be_bound_and_are_all_different() -> None:
    given = free_ports(20)
    assert len(set(given)) == 20
    for port in given:
        with socket.socket() as server:
            server.bind(("127.0.0.1", port))


def test_none_is_one_that_the_kernel_gives_to_whoever_connects() -> None:
    first, last = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    if first > ports.LOWEST + ports.TRIES:
        assert not [port for port in free_ports(200) if first <= port <= last]


def test_a_port_that_somebody_listens_on_is_passed_over() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", free_ports(1)[0]))
        server.listen()
        assert not ports._nobody_listens(server.getsockname()[1])


def test_no_other_process_gets_a_port_that_nobody_has_bound_yet() -> None:
    """Another process that may take this one port only finds none; once this port is let go, it does."""
    (port,) = free_ports(1)
    only = f"from rosa_sim import ports; ports.LOWEST = {port}; ports._first_ephemeral = lambda: {port} + 1; "
    command = [sys.executable, "-c", only + "print(ports.free_port())"]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert refused.returncode != 0 and "no free port" in refused.stderr, refused
    os.close(ports._kept.pop())
    assert subprocess.run(command, capture_output=True, text=True, timeout=60).stdout == f"{port}\n"
