"""Whatever happens, no process and no shared-memory file of a stopped robot is left behind."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from rosa_client.bringup import supervisor as supervisor_module
from rosa_client.bringup.supervisor import SHM, BringupError, Supervisor, remove_shared_memory
from rosa_client.nodes.base.readiness import tell_ready
from tests.system.memory import OWN_MEMORY

DEAF = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"
PARENT = f"""
import os, sys, time
from rosa_client.bringup.supervisor import Supervisor
s = Supervisor(lambda name, line: print(s.pid(name), flush=True), os.environ)
s.start("deaf", [sys.executable, "-c", {DEAF!r}])
time.sleep(60)
"""


@pytest.fixture
def lines() -> list[str]:
    return []


@pytest.fixture
def supervisor(lines: list[str]) -> Iterator[Supervisor]:
    made = Supervisor(lambda name, line: lines.append(f"{name}: {line}"), os.environ)
    yield made
    made.stop(grace_s=0.1)


def until(condition: Callable[[], bool], timeout_s: float = 20.0) -> None:
    end_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end_s, "did not happen in time"
        time.sleep(0.02)


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_a_child_that_ignores_sigint_is_killed_after_the_grace_time(
    supervisor: Supervisor, lines: list[str]
) -> None:
    supervisor.start("deaf", python(DEAF))
    until(lambda: "deaf: deaf" in lines)
    pid = supervisor.pid("deaf")
    supervisor.stop(grace_s=0.3)
    assert not psutil.pid_exists(pid)
    assert "deaf: did not end within 0.3 s; killed" in lines


def test_grandchildren_go_with_their_parent(supervisor: Supervisor, lines: list[str]) -> None:
    deaf = f"subprocess.Popen([sys.executable, '-c', {DEAF!r}])"
    code = f"import subprocess, sys, time; print({deaf}.pid, flush=True)"
    supervisor.start("parent", python(code + "; time.sleep(60)"))
    until(lambda: len(lines) == 2)
    grandchild = next(int(line.split()[1]) for line in lines if line.split()[1].isdigit())
    supervisor.stop(grace_s=0.3)
    until(lambda: not psutil.pid_exists(grandchild) or psutil.Process(grandchild).status() == "zombie")


def test_children_die_with_a_supervisor_that_is_killed(tmp_path: Path) -> None:
    parent = subprocess.Popen(python(PARENT), stdout=subprocess.PIPE, text=True)
    try:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        assert child.is_running()
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.communicate()
    until(lambda: not child.is_running() or child.status() == "zombie")


def test_a_child_that_ends_is_reported_with_its_status(supervisor: Supervisor) -> None:
    supervisor.start("short", python("raise SystemExit(3)"))
    until(lambda: bool(supervisor.ended()))
    assert supervisor.ended() == {"short": 3}


def test_a_child_that_was_killed_can_be_started_again(supervisor: Supervisor, lines: list[str]) -> None:
    for _ in range(2):
        supervisor.start("deaf", python(DEAF))
        supervisor.kill("deaf")
        assert supervisor.ended() == {"deaf": -signal.SIGKILL}


def test_a_command_that_does_not_exist_is_an_error_in_words(supervisor: Supervisor) -> None:
    with pytest.raises(BringupError, match="cannot start /no/such/program: No such file"):
        supervisor.start("nothing", ["/no/such/program"])


def test_a_signal_that_comes_while_a_child_is_started_leaves_no_child_that_nobody_knows(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread takes the signal, so that blocking it in this one is not enough."""
    popen, over = subprocess.Popen, threading.Event()

    def interrupted(*arguments: Any, **options: Any) -> Any:
        process = popen(*arguments, **options)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.2)
        return process

    other = threading.Thread(target=over.wait)
    other.start()
    monkeypatch.setattr(subprocess, "Popen", interrupted)
    try:
        with pytest.raises(KeyboardInterrupt):
            supervisor.start("deaf", python(DEAF))
        assert supervisor.is_running("deaf")
    finally:
        over.set()
        other.join()


@pytest.fixture
def left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that a killed node left, in a shared memory of its own: no process here has it open."""
    monkeypatch.setattr(supervisor_module, "SHM", tmp_path)
    path = tmp_path / "fastdds_left"
    path.write_bytes(b"x")
    return path


def test_what_another_user_left_is_let_alone(left: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: left.stat().st_uid + 1)
    remove_shared_memory(set())
    assert left.exists()


def test_a_file_that_cannot_be_removed_does_not_keep_the_others(
    left: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    other = left.with_name("fastdds_other")
    other.write_bytes(b"x")
    unlink = Path.unlink

    def refuse(path: Path, missing_ok: bool = False) -> None:
        if path == left:
            raise PermissionError(1, "Operation not permitted", str(path))
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", refuse)
    remove_shared_memory(set())
    assert left.exists()
    assert not other.exists()
    assert "Operation not permitted" in caplog.text


def test_what_a_process_that_cannot_be_seen_has_locked_stays(left: Path) -> None:
    """Such as a node in another container with the same /dev/shm, or one with more rights than this process."""
    port = [left.with_name(name) for name in ("fastdds_port7411", "fastdds_port7411_el")]
    port.append(left.with_name("sem.fastdds_port7411_mutex"))
    for path in port:
        path.write_bytes(b"x")
    with port[1].open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        remove_shared_memory(set(), spared=os.getpid())  # so that the list of open files does not show it
        assert all(path.exists() for path in port)
        assert not left.exists(), "what nobody holds goes"
    remove_shared_memory(set())
    assert not any(path.exists() for path in port), "its process has ended"


def test_a_file_of_the_same_name_in_another_shared_memory_keeps_nothing(tmp_path: Path) -> None:
    """A process in a container, or in a test with a /dev/shm of its own: its ports have the same numbers."""
    own = [*OWN_MEMORY, str(tmp_path)]
    if subprocess.run([*own, "true"], capture_output=True, timeout=60).returncode:
        pytest.skip("no mount namespace can be made here")
    left = SHM / f"fastdds_test_{os.getpid()}_twice"
    holds = f"import time; held = open({str(left)!r}, 'wb'); print('held', flush=True); time.sleep(60)"
    with subprocess.Popen([*own, *python(holds)], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "held\n"
            left.write_bytes(b"x")
            remove_shared_memory(set())
            assert not left.exists()
            assert (tmp_path / left.name).exists()
        finally:
            process.kill()
            left.unlink(missing_ok=True)


def test_shared_memory_of_killed_children_is_removed_and_that_of_the_living_is_not(
    supervisor: Supervisor,
) -> None:
    left = SHM / f"fastdds_test_{os.getpid()}_left"
    living = SHM / f"fastdds_test_{os.getpid()}_living"
    left.write_bytes(b"x")
    try:
        with living.open("wb") as file:
            file.write(b"x")
            file.flush()
            supervisor.stop()
            assert not left.exists()
            assert living.exists()
    finally:
        living.unlink(missing_ok=True)


def test_a_child_is_ready_when_it_has_said_so_and_a_new_one_of_its_name_is_not(
    supervisor: Supervisor, lines: list[str]
) -> None:
    after = "print('done', flush=True); time.sleep(60)"
    tells = (
        "import time; from rosa_client.nodes.base.readiness import tell_ready; tell_ready(); tell_ready(); "
    )
    supervisor.start("node", python(tells + after))
    until(lambda: "node: done" in lines)
    assert supervisor.is_ready("node")
    supervisor.kill("node")
    supervisor.start("node", python("import time; " + after))
    until(lambda: lines.count("node: done") == 2)
    assert not supervisor.is_ready("node")


def test_readiness_is_told_to_a_path_too_and_to_nobody(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """systemd's own sockets are paths."""
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as theirs:
        theirs.bind(path)
        monkeypatch.setenv("NOTIFY_SOCKET", path)
        tell_ready()
        assert theirs.recv(100) == b"READY=1"
    tell_ready()  # nobody listens any more
    monkeypatch.setenv("NOTIFY_SOCKET", "")
    tell_ready()
