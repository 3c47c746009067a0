"""A worker that cannot be started is a lost worker with a reason, and the next try comes later."""

from __future__ import annotations

import errno
import logging
import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import psutil
import pytest

from rosa_server.cluster.local import LocalCluster
from rosa_server.serving.base.log import LOGGER
from rosa_server.serving.base.worker_spec import MISCONFIGURED, WorkerSpec

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


class Ended:
    """A process that has ended. Its number is nobody's."""

    pid = 0
    stdin = None

    def __init__(self, returncode: int | None) -> None:
        """None: it still runs."""
        self.returncode = returncode

    def poll(self) -> int | None:
        return self.returncode


def always(monkeypatch: pytest.MonkeyPatch, process: Ended) -> None:
    """Every worker that is started is this process."""
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: process)


def test_a_worker_that_is_misconfigured_says_so_also_when_its_first_start_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody waits for ever for a server that cannot get ready."""
    cluster = LocalCluster([replace(SPEC, far=True)])
    ways = iter([OSError(errno.ENOMEM, "Cannot allocate memory"), Ended(MISCONFIGURED)])

    def start(*_: Any, **__: Any) -> Ended:
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


def test_a_worker_that_an_unnamed_signal_ends_ends_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = LocalCluster([replace(SPEC, far=True)])
    always(monkeypatch, Ended(-40))
    assert cluster.poll(0.0) == []
    assert cluster.poll(0.1) == [("policy/0.1", "ended by signal 40")]


def test_the_status_of_a_wrong_configuration_means_nothing_once_a_worker_was_ready(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`sys.exit(78)` in `infer` is a fault like any other."""
    cluster = LocalCluster([replace(SPEC, far=True)])
    always(monkeypatch, Ended(MISCONFIGURED))
    cluster.poll(0.0)
    cluster.ready("policy/0.1", 0.05)
    assert cluster.poll(0.1) == [("policy/0.1", "ended with status 78")]
    assert cluster.misconfigured == ""
    cluster.ready("policy/0.2", 0.2)
    assert cluster.poll(0.4) == [("policy/0.2", "ended with status 78")], "it was started again"


def test_five_starts_of_which_none_gets_ready_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = LocalCluster([replace(SPEC, far=True)])
    always(monkeypatch, Ended(70))
    lost: list[tuple[str, str]] = []
    step = 0
    while len(lost) < 4:
        lost += cluster.poll(step / 20)
        step += 1
    assert cluster.misconfigured == ""
    while len(lost) < 5:
        lost += cluster.poll(step / 20)
        step += 1
    assert "none of 5 starts made it ready" in cluster.misconfigured
    assert "models.policy: policy/0.5 ended with status 70" in cluster.misconfigured


def test_a_worker_that_was_ready_once_is_tried_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = LocalCluster([replace(SPEC, far=True)])
    always(monkeypatch, Ended(70))
    cluster.poll(0.0)
    cluster.ready("policy/0.1", 0.0)
    for step in range(1000):
        cluster.poll(float(step))
    assert cluster.misconfigured == ""


def test_a_worker_that_takes_long_to_start_is_reported_ever_less_often(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = LocalCluster([replace(SPEC, far=True)])
    always(monkeypatch, Ended(None))
    with caplog.at_level(logging.WARNING, LOGGER.name):
        for second in range(500):
            cluster.poll(float(second))
    seconds = [
        record.fields["seconds"] for record in caplog.records if record.message == "worker_still_starting"
    ]  # type: ignore[attr-defined]
    assert seconds == [60, 120, 240, 480]
    cluster.ready("policy/0.1", 500.0)
    caplog.clear()
    with caplog.at_level(logging.WARNING, LOGGER.name):
        for second in range(500, 3000):
            cluster.poll(float(second))
    assert not caplog.records
