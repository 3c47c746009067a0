"""A backend is somebody's code: whatever it does, the server says what happened, goes on, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.system.server_faults.test_worker_faults import faulty, wait_for
from tests.system.server_harness import EMULATED, FACTORY, PATIENCE_S, Robot, Server, robot, serving

NO_BACKEND = "tests.system.server_faults.faulty:NoBackend"


def failing(folder: Path, how: str) -> dict[str, Any]:
    named = faulty(folder)
    return {**named, "options": {"mark": str(folder / "died"), "load_fails": how}}


def ended(pid: int) -> bool:
    """Whether a process is gone, or is a zombie that nobody has waited for."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def wait_until_ended(pid: int) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not ended(pid):
        assert time.monotonic() < end_s, f"process {pid} is still there"
        time.sleep(0.05)


def child_of(mark: Path) -> int:
    end_s = time.monotonic() + PATIENCE_S
    while not mark.exists() or not mark.read_text():
        assert time.monotonic() < end_s
        time.sleep(0.05)
    return int(mark.read_text())


def test_a_class_that_is_no_backend_ends_the_server_and_says_what_is_missing(tmp_path: Path) -> None:
    with serving(tmp_path, backend=NO_BACKEND, options={}) as server:
        assert server.process is not None
        assert server.process.wait(PATIENCE_S) == 2
        (said,) = server.events("worker_misconfigured")
        assert "infer" in said["reason"] and "warm_up" in said["reason"]
        assert len(server.events("worker_started")) == 1
        assert "Traceback" not in server.log()


def test_a_backend_that_never_loads_is_given_up_after_a_few_starts(tmp_path: Path) -> None:
    with serving(tmp_path, **failing(tmp_path, "memory")) as server:
        assert server.process is not None
        assert server.process.wait(PATIENCE_S) == 2
        said = server.events("worker_failed_to_start")
        assert len(said) == len(server.events("worker_started")) == 5
        assert said[0]["error"] == "RuntimeError: out of memory on this GPU"
        assert "faulty.py" in said[0]["traceback"]
        assert "models.policy: " in server.log() and "5 starts" in server.log()


def test_a_backend_that_exits_with_the_status_of_a_wrong_configuration_is_started_again(
    tmp_path: Path,
) -> None:
    with serving(tmp_path, **faulty(tmp_path)) as server, robot(server) as panda:
        panda.join()
        panda.request(1, "exit 78")
        assert panda.answer().cause == "workers_lost"
        wait_for(server, "worker_ready", 3)
        panda.join()
        panda.request(2)
        assert panda.answer().status == "ok"


@pytest.fixture(scope="module")
def surviving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Robot]]:
    """One server for what a worker survives, and a robot there."""
    folder = tmp_path_factory.mktemp("surviving")
    with serving(folder, **faulty(folder)) as server, robot(server) as panda:
        yield server, panda.join()


@pytest.mark.parametrize("prompt", ["unprintable", "surrogate"])
def test_an_exception_that_cannot_be_shown_fails_its_request_only(
    surviving: tuple[Server, Robot], prompt: str
) -> None:
    server, panda = surviving
    panda.request(1, prompt)
    answer = panda.answer()
    assert answer.cause == "model_error" and "Error" in answer.reason
    panda.request(2)
    assert panda.answer().status == "ok"
    assert server.events("worker_lost") == []


def test_an_output_that_cannot_be_used_is_logged(surviving: tuple[Server, Robot]) -> None:
    server, panda = surviving
    for number in range(20):
        panda.request(number, "nan")
        assert panda.answer().cause == "bad_output"
    (said,) = server.events("bad_output")
    assert said["model"] == "policy" and "NaN" in said["reason"]


def test_a_child_of_a_backend_ends_with_its_worker(tmp_path: Path) -> None:
    with serving(tmp_path, **faulty(tmp_path)) as server, robot(server) as panda:
        panda.join()
        panda.request(1, "child")
        assert panda.answer().status == "ok"
        child = child_of(tmp_path / "died")
        (worker,) = server.workers()
        worker.send_signal(signal.SIGKILL)
        wait_until_ended(child)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_child_of_a_backend_ends_with_the_server_however_that_ends(tmp_path: Path, number: int) -> None:
    with serving(tmp_path, **faulty(tmp_path)) as server, robot(server) as panda:
        panda.join()
        panda.request(1, "child")
        assert panda.answer().status == "ok"
        child = child_of(tmp_path / "died")
        assert server.process is not None
        family = psutil.Process(server.process.pid).children(recursive=True)
        server.process.send_signal(number)
        server.process.wait(PATIENCE_S)
        wait_until_ended(child)
        for one in family:
            wait_until_ended(one.pid)


def test_what_a_library_writes_is_bounded_and_names_its_worker(tmp_path: Path) -> None:
    """1.2 MB to each of both streams, at once."""
    with serving(tmp_path, **faulty(tmp_path)) as server, robot(server) as panda:
        panda.join()
        panda.request(1, "noise", budget_ms=30_000)
        assert panda.answer().status == "ok"
        end_s = time.monotonic() + PATIENCE_S
        while sum(line["left_out_bytes"] for line in server.events("worker_output")) <= 1_000_000:
            assert time.monotonic() < end_s, server.log()
            time.sleep(0.05)
        said = server.events("worker_output")
        assert said[0]["worker"] == "policy/0.1" and "a library has something to say" in said[0]["text"]
        assert len(server.log()) < 50_000
        assert all(line.startswith("{") or "ROSA is ready" in line for line in server.log().splitlines())


def test_ctrl_c_while_workers_import_shows_no_traceback(tmp_path: Path) -> None:
    """A terminal sends it to every process of the foreground group."""
    for delay_s in (0.05, 0.15, 0.3, 0.5, 0.8):
        folder = tmp_path / str(delay_s)
        folder.mkdir()
        server = Server(folder, workers=3, **faulty(folder))
        server.start(group=True)
        try:
            wait_for(server, "worker_started", 1)
            time.sleep(delay_s)
            assert server.process is not None
            os.killpg(server.process.pid, signal.SIGINT)
            assert server.process.wait(PATIENCE_S) in (0, 130)
            assert "Traceback" not in server.log(), server.log()
        finally:
            server.kill()


def test_the_log_is_one_json_object_per_line_whatever_a_worker_does(tmp_path: Path) -> None:
    with serving(tmp_path, **faulty(tmp_path)) as server, robot(server) as panda:
        panda.join()
        panda.request(1, "exit 3")
        assert panda.answer().cause == "workers_lost"
        wait_for(server, "worker_ready", 3)
        for line in server.log().splitlines():
            assert "ROSA is ready" in line or json.loads(line)["event"]


def test_weights_that_are_not_those_of_the_factory_file_are_never_read(tmp_path: Path) -> None:
    weights = tmp_path / "policy.safetensors"
    weights.write_bytes(b"somebody else's")
    text = FACTORY.replace("options: {options}", "options: {options}, sha256: {{policy.safetensors: 'SUM'}}")
    factory = text.replace("SUM", "0" * 64)
    options = {"weights": "policy.safetensors"}
    with serving(tmp_path, backend="flow_policy", options=options, factory=factory) as server:
        assert server.process is not None
        assert server.process.wait(PATIENCE_S) == 2
        assert server.events("worker_misconfigured"), server.log()
        (said,) = server.events("worker_misconfigured")
        assert "its SHA-256 is " in said["reason"] and "safetensors header" not in server.log().lower()


def test_what_a_model_is_told_is_on_no_command_line(tmp_path: Path) -> None:
    """Every user of the machine may read command lines; options may hold a token of somebody's API."""
    with serving(tmp_path, options={**EMULATED, "text": "a-secret-token"}) as server, robot(server) as panda:
        panda.join()
        for worker in server.workers():
            assert "policy" in " ".join(worker.cmdline())
            assert "a-secret-token" not in " ".join(worker.cmdline())
