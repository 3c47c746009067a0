"""Connects to a port of the arm once, and pings its machine."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess

from rosa_client.doctor.judges.arm import AddressFact

FCI_PORT = 1337  # of libfranka's command connection
CONNECT_S = 2.0
PINGS, PING_EVERY_S, PING_BYTES = 25, 0.05, 1200  # the size of a robot state, as in Franka's test
TIME = re.compile(r"time=([\d.]+) ms")


def address_fact(host: str, port: int | None) -> AddressFact:
    """One connection, closed at once, then `PINGS` pings; without a port only the pings, of a name that is known."""
    problem = ""
    try:
        if port is None:
            socket.getaddrinfo(host, None)
        else:
            socket.create_connection((host, port), CONNECT_S).close()
    except UnicodeError as error:  # a name with two dots in a row, or a part that is too long
        problem = str(error)
    except OSError as error:
        problem = error.strerror or str(error)
    times_ms, sent = pings(host) if not problem else ((), 0)
    return AddressFact(host, port, not problem, problem, times_ms, sent)


def pings(host: str) -> tuple[tuple[float, ...], int]:
    """Round trips in ms, and how many pings were sent; 0 when there is no `ping` or it may not be used."""
    command = shutil.which("ping")
    if command is None:
        return (), 0
    words = [command, "-n", "-c", str(PINGS), "-i", str(PING_EVERY_S), "-s", str(PING_BYTES), "-W", "1", host]
    try:
        ended = subprocess.run(words, capture_output=True, text=True, timeout=30, env={"LC_ALL": "C"})
    except (OSError, subprocess.TimeoutExpired):
        return (), 0
    if ended.returncode not in (0, 1):  # 1: some had no answer; 2: not permitted, a wrong name
        return (), 0
    return tuple(float(text) for text in TIME.findall(ended.stdout)), PINGS
