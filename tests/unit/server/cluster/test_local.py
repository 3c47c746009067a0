"""A worker that cannot be started is a lost worker with a reason, and the next try comes later."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import psutil
import pytest

from rosa_server.cluster.local import LocalCluster
from rosa_server.serving.worker_spec import MISCONFIGURED, WorkerSpec

SPEC = WorkerSpec("policy/0", "policy", "emulated", "ipc:///nowhere")


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize(
    ("owner", "call", "error"),
    [
        (os, "memfd_create", OSError(errno.EMFILE, "Too many open files")),
        (os, "ftruncate", OSError(errno.ENOSPC, "No space left on device")),
        (subprocess, "Popen", BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")),
        (subprocess, "Popen", FileNotFoundError(errno.ENOENT, "No such file or directory")),
    ],
    ids=["no descriptor", "no memory", "no process", "no program"],
)
@pytest.mark.skipif(sys.platform != "linux", reason="counts descriptors in /proc and needs memfd")
def test_a_failed_start_is_a_lost_worker_and_is_tried_again_later(
    monkeypatch: pytest.MonkeyPatch, owner: Any, call: str, error: OSError
) -> None:
    tries = []

    def fail(*_: Any, **__: Any) -> None:
        tries.append(1)
        raise error

    cluster = LocalCluster([SPEC])
    monkeypatch.setattr(owner, call, fail)
    before = descriptors()
    assert cluster.poll(0.0) == [("policy/0.1", f"could not be started: {error}")]
    assert cluster.poll(0.01) == [("policy/0.2", f"could not be started: {error}")]
    for step in range(2, 100):
        cluster.poll(step / 100)
    assert len(tries) == 4, "0.2 s and 0.4 s lie between the next ones"
    assert not psutil.Process().children()
    assert descriptors() == before


class Misconfigured:
    """A process that has found its configuration wrong."""

    returncode = MISCONFIGURED
    pid = 0

    def poll(self) -> int:
        return self.returncode


def test_a_worker_that_is_misconfigured_says_so_also_when_its_first_start_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody waits for ever for a server that cannot get ready."""
    cluster = LocalCluster([replace(SPEC, far=True)])
    ways = iter([OSError(errno.ENOMEM, "Cannot allocate memory"), Misconfigured()])

    def start(*_: Any, **__: Any) -> Misconfigured:
        way = next(ways)
        if isinstance(way, OSError):
            raise way
        return way

    monkeypatch.setattr(subprocess, "Popen", start)
    assert "Cannot allocate memory" in cluster.poll(0.0)[0][1]
    assert cluster.misconfigured == ""
    assert cluster.poll(0.1) == []
    assert cluster.poll(0.2) == [("policy/0.2", "cannot work as configured")]
    assert "models.policy: policy/0.2 cannot work as configured" in cluster.misconfigured


class Killed:
    """A process that a real-time signal has ended."""

    returncode = -40
    pid = 0

    def poll(self) -> int:
        return self.returncode


def test_a_worker_that_an_unnamed_signal_ends_ends_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = LocalCluster([replace(SPEC, far=True)])
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: Killed())
    assert cluster.poll(0.0) == []
    assert cluster.poll(0.1) == [("policy/0.1", "ended by signal 40")]
