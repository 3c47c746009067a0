"""Nodes as `ros2 run` starts them: one process each, ended however the test ends."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path

from rosa_client.executables import module_of, program

ROOT = Path(__file__).parents[3]
PANDA = f"robot:={ROOT / 'configs' / 'robots' / 'panda.yaml'}"
CONFIG = f"config:={ROOT / 'configs' / 'pick_place.yaml'}"
MANAGED = ("arm_node", "camera_node", "runtime_node")
PATIENCE_S = 40.0
# What `faulthandler` writes of a process that it ends.
TIMEOUT, INNERMOST_FIRST, NO_PYTHON = "Timeout (", "(most recent call first):", "<no Python frame>"
SPINS = "/rclpy/executors.py"
SHARED_MEMORY = "RTPS_TRANSPORT_SHM"  # Fast DDS did not get a port's lock in time, and takes another port

Process = subprocess.Popen[str]


@contextmanager
def running(node: str, namespace: str, *parameters: str, **environment: str) -> Iterator[Process]:
    """A node with its output in `stdout`; it makes itself active unless it is told not to."""
    command = [*program(module_of(node)), "--ros-args"]
    given = ("autostart:=true", *parameters) if node in MANAGED else parameters
    command += ["-r", f"__ns:=/{namespace}", *(word for one in given for word in ("-p", one))]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONFAULTHANDLER": "1", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


def answers_signals(process: Process) -> bool:
    """Whether our own code has taken over SIGTERM; before that, signals are the interpreter's."""
    try:
        status = Path(f"/proc/{process.pid}/status").read_text()
    except OSError:
        return False
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1)


def wait_until_it_answers_signals(process: Process) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not answers_signals(process) and process.poll() is None:
        assert time.monotonic() < end_s
        time.sleep(0.005)


def wait_for(process: Process, words: str) -> str:
    """Read what it writes up to the line with `words`; returns all of it."""
    assert process.stdout is not None
    said = ""
    for line in process.stdout:
        said += line
        if words in line:
            return said
    raise AssertionError(f"ended with {process.wait()} without saying {words!r}:\n{said}")


class Stuck(AssertionError):
    """A node had to be ended, by its own limit or by the test; the text says what each of its threads did."""

    def __init__(self, said: str) -> None:
        super().__init__(said)
        # The main thread comes last, innermost call first. A node that spins has not heard its signal: that is ours.
        frames = [line.strip() for line in said.rpartition(INNERMOST_FIRST)[2].strip().splitlines()]
        ros = list(takewhile(lambda frame: "/rclpy/" in frame, frames))
        self.in_ros = frames[0] == NO_PYTHON or (bool(ros) and not any(SPINS in frame for frame in ros))


def end(process: Process, number: int = signal.SIGINT, within_s: float = 15.0) -> str:
    """Send a signal and return what it said until it ended with status 0. Raises `Stuck` for one that does not end."""
    process.send_signal(number)
    try:
        said, _ = process.communicate(timeout=within_s)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)  # it says what its threads do, whoever has the interpreter's lock
        said, _ = process.communicate(timeout=within_s)
        raise Stuck(f"had not ended {within_s:g} s after {number!r}:\n{said}") from None
    if TIMEOUT in said:
        raise Stuck(said)
    assert process.returncode == 0, f"status {process.returncode}:\n{said}"
    wrong = [
        line
        for line in said.splitlines()
        if ("Traceback" in line or "Error" in line) and SHARED_MEMORY not in line
    ]
    assert not wrong, said
    return said
