"""Start, drain, end, come back: and nothing stays behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from rosa_contract.wire import messages as m
from tests.system.server_faults.test_worker_faults import faulty, until_held, wait_for
from tests.system.server_harness import EMULATED, PATIENCE_S, Server, robot, serving


def gone(processes: list[psutil.Process]) -> bool:
    _, alive = psutil.wait_procs(processes, timeout=20)
    return not alive


@pytest.fixture(autouse=True)
def _temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A temporary folder of its own: a server that starts in the shared one removes what a killed one left there."""
    # Short, as the path of a socket has at most 107 characters.
    with tempfile.TemporaryDirectory(prefix="rosa-") as folder:
        monkeypatch.setenv("TMPDIR", folder)
        yield


def left_behind(server_pid: int) -> list[Path]:
    """Socket folders that this server should have removed."""
    return list(Path(os.environ["TMPDIR"]).glob(f"rosa-server-{server_pid}-*"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_the_running_request_end_and_leaves_nothing(tmp_path: Path, number: int) -> None:
    with serving(tmp_path, **faulty(tmp_path)) as server, robot(server) as panda:
        panda.join()
        workers = server.workers()
        assert server.process is not None
        pid = server.process.pid
        panda.request(1, "hold")
        until_held(tmp_path)
        server.process.send_signal(number)
        wait_for(server, "server_draining", 1)
        (tmp_path / "died").unlink()
        assert panda.answer().status == "ok"
        assert server.process.wait(PATIENCE_S) == 0
        assert gone(workers)
        assert left_behind(pid) == []
        assert server.events("server_stopped")


def test_a_signal_during_start_up_leaves_nothing(tmp_path: Path) -> None:
    for delay_s in (0.0, 0.3, 0.8, 1.2):
        with serving(tmp_path, options={**EMULATED, "load_s": 30}) as server:
            assert server.process is not None
            time.sleep(delay_s)
            children = psutil.Process(server.process.pid).children(recursive=True)
            if delay_s == 0.0:  # Python, which has not begun to run our lines, may swallow it
                server.process.send_signal(signal.SIGINT)
                with suppress(subprocess.TimeoutExpired):
                    server.process.wait(20)
            server.stop(signal.SIGINT)
            assert gone(children)
            assert left_behind(server.process.pid) == []


def test_workers_do_not_outlive_a_killed_server(tmp_path: Path) -> None:
    with serving(tmp_path, workers=2) as server, robot(server) as panda:
        panda.join()
        workers = server.workers()
        assert workers
        assert server.process is not None
        pid = server.process.pid
        server.kill()
        assert gone(workers)
        assert left_behind(pid), "a killed server cannot clean up"
    (tmp_path / "next").mkdir()
    with serving(tmp_path / "next") as server, robot(server) as panda:
        panda.join()
        assert left_behind(pid) == [], "so the next one does"


def test_after_a_restart_the_robot_is_asked_to_say_hello_again(tmp_path: Path) -> None:
    with serving(tmp_path) as server, robot(server) as panda:
        panda.join()
        assert server.stop() == 0
        server.start()
        panda.request(1, budget_ms=60_000)  # waits in the socket until the server is back
        answer = panda.receive()
        assert isinstance(answer, m.Refused)
        assert answer.cause == "hello_required"
        panda.join()
        panda.request(2)
        assert panda.answer().status == "ok"


def test_metrics_and_health_over_http(tmp_path: Path) -> None:
    with serving(tmp_path) as server, robot(server) as panda:
        panda.join()
        panda.request(1)
        assert panda.answer().status == "ok"
        base = f"http://127.0.0.1:{server.metrics_port}"
        end_s = time.monotonic() + PATIENCE_S
        counted = 'rosa_requests_total{component="system1",status="ok"} 1.0'
        while counted not in urllib.request.urlopen(f"{base}/metrics", timeout=10).read().decode():
            assert time.monotonic() < end_s  # it is counted right after the answer has left
            time.sleep(0.05)
        while True:  # the report is refreshed once a second
            try:
                health = json.load(urllib.request.urlopen(f"{base}/health", timeout=10))
                break
            except urllib.error.HTTPError as error:
                assert error.code == 503
                error.close()
                assert time.monotonic() < end_s
                time.sleep(0.2)
        assert health["ready"]


def test_a_port_in_use_is_said_plainly(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with serving(tmp_path / "a") as first, robot(first) as panda:
        panda.join()
        second = Server(tmp_path / "b")
        second.config.write_text(first.config.read_text())
        assert second.start().process is not None
        assert second.process is not None
        assert second.process.wait(PATIENCE_S) == 2
        assert "is another server running?" in second.log()


def test_beyond_loopback_the_server_refuses_to_start_without_keys(tmp_path: Path) -> None:
    server = Server(tmp_path)
    server.config.write_text(server.config.read_text().replace("127.0.0.1:", "*:"))
    server.start()
    assert server.process is not None
    assert server.process.wait(PATIENCE_S) == 2
    assert "rosa keys" in server.log()


def test_with_keys_only_known_robots_get_in_and_only_under_their_own_name(tmp_path: Path) -> None:
    import zmq.auth

    from rosa_server.serving.edge.access import make_keys

    keys = tmp_path / "keys"
    for name in ("r1", "r2"):
        make_keys(keys, name)
    server_key, _ = zmq.auth.load_certificate(keys / "server.key")

    def key_of(name: str) -> tuple[bytes, bytes, bytes]:
        public, secret = zmq.auth.load_certificate(keys / "robots" / f"{name}.key_secret")
        assert secret is not None
        return server_key, public, secret

    with serving(tmp_path, gateway=f', curve_keys: "{keys}"') as server:
        with robot(server, "r1", keys=key_of("r1")) as known:
            known.join()
            known.request(1)
            assert known.answer().status == "ok"
        with robot(server, "r1", keys=key_of("r2")) as impostor:
            answer = impostor.hello()
            assert isinstance(answer, m.Refused)
            assert answer.cause == "wrong_key"
            assert "belongs to 'r2'" in answer.reason
        for keys_of_stranger in (None, (server_key, *zmq.curve_keypair())):
            with robot(server, "stranger", keys=keys_of_stranger) as stranger:
                stranger.send(m.HealthQuery())
                with pytest.raises(TimeoutError):
                    stranger.receive(1.0)


def learned(server: Server) -> float:
    """Ended tasks whose length the server remembers, as its metrics say."""
    url = f"http://127.0.0.1:{server.metrics_port}/metrics"
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
        lines = answer.read().decode().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("rosa_tasks_learned "))


def until_learned(server: Server, count: float) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while learned(server) != count:
        assert time.monotonic() < end_s, f"{learned(server)} tasks are remembered, not {count}"
        time.sleep(0.1)


def test_what_robots_said_of_their_tasks_outlives_the_server(tmp_path: Path) -> None:
    gateway = ', task_lengths: "state/lengths.json"'
    with serving(tmp_path, gateway=gateway) as server, robot(server) as panda:
        assert panda.join().hello().tasks
        for task in range(3):
            for number in range(2):
                panda.request(10 * task + number, progress=m.Progress(task, number, 20.0, "cube"))
                assert panda.answer().status == "ok"
            panda.send(m.TaskEnds(task, "done"))
        until_learned(server, 3)
        assert server.stop() == 0
        told = json.loads((tmp_path / "state" / "lengths.json").read_text())
        assert {kind: [rounds for _, rounds in ended] for kind, ended in told.items()} == {
            "pick: cube": [2, 2, 2]
        }
        server.start()
        until_served(server)
        until_learned(server, 3)


def until_served(server: Server) -> None:
    """Its metrics can be read."""
    end_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            learned(server)
            return
        except (OSError, StopIteration):
            assert time.monotonic() < end_s
            time.sleep(0.1)
