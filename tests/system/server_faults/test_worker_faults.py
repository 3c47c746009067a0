"""A model may answer nonsense, raise, or die in mid-batch: every request still gets its one answer."""

from __future__ import annotations

import signal
import time
from pathlib import Path

from tests.system.server_harness import FAULTY, PATIENCE_S, Server, robot, serving


def faulty(folder: Path) -> dict[str, object]:
    return {"backend": FAULTY, "options": {"mark": str(folder / "died")}}


def wait_for(server: Server, event: str, count: int) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while len(server.events(event)) < count:
        assert time.monotonic() < end_s, f"{event} did not happen {count} times:\n{server.log()}"
        time.sleep(0.05)


def until_held(folder: Path) -> None:
    """Until a worker is in the middle of a batch with `hold`."""
    end_s = time.monotonic() + PATIENCE_S
    while not (folder / "died").exists():
        assert time.monotonic() < end_s, "no worker has begun"
        time.sleep(0.01)


def test_nan_and_exceptions_fail_their_own_request_and_the_worker_lives(tmp_path: Path) -> None:
    """And one robot's bad input is no reason to start a model again."""
    with serving(tmp_path, **faulty(tmp_path)) as server, robot(server) as panda:
        panda.join()
        answers = [
            ("nan", "failed"),
            ("raise", "failed"),
            ("", "ok"),
            *[("raise", "failed")] * 12,
            ("", "ok"),
        ]
        for number, (prompt, status) in enumerate(answers):
            panda.request(number, prompt)
            answer = panda.answer()
            assert (answer.request_id, answer.status) == (number, status), answer
        assert server.events("worker_lost") == [] == server.events("model_broken")


def test_a_model_that_fails_every_call_is_started_again_and_its_traceback_is_logged(tmp_path: Path) -> None:
    """After a device-side assert a GPU answers nothing until its process ends."""
    with serving(tmp_path, **faulty(tmp_path)) as server, robot(server) as panda:
        panda.join()
        panda.request(0)
        assert panda.answer().status == "ok"
        for number, prompt in enumerate(["break", "", ""], start=1):
            panda.request(number, prompt)
            assert panda.answer().cause == "model_error"
        wait_for(server, "worker_lost", 1)
        wait_for(server, "worker_ready", 2)
        panda.request(9)
        assert panda.answer().status == "ok"
        [broken] = server.events("model_broken")
        assert "it failed 3 batches in a row, and then a request that it had answered" in broken["reason"]
        assert "faulty.py" in broken["traceback"] and "in _one" in broken["traceback"]
        assert "in _one" in server.events("batch_failed")[0]["traceback"]
        assert server.events("worker_lost")[0]["reason"] == "its model fails every call"


def test_a_worker_that_dies_in_mid_batch_is_replaced_and_its_request_runs_again(tmp_path: Path) -> None:
    with serving(tmp_path, **faulty(tmp_path)) as server, robot(server) as panda:
        panda.join()
        panda.request(1, "die once")
        answer = panda.answer()
        assert (answer.request_id, answer.status) == (1, "ok"), answer
        assert "SIGKILL" in server.events("worker_lost")[0]["reason"]


def test_a_worker_killed_from_outside_in_mid_batch_leaves_nobody_waiting(tmp_path: Path) -> None:
    with (
        serving(tmp_path, **faulty(tmp_path)) as server,
        robot(server, "r1") as one,
        robot(server, "r2") as two,
    ):
        one.join()
        two.join()
        one.request(1, "hold once")
        until_held(tmp_path)
        two.request(2, "", budget_ms=100)  # too little to see the next worker
        (worker,) = server.workers()
        worker.send_signal(signal.SIGKILL)
        assert two.answer().status in ("unavailable", "expired")
        assert one.answer().status == "ok"


def test_a_request_that_kills_every_worker_is_answered_failed(tmp_path: Path) -> None:
    with serving(tmp_path, **faulty(tmp_path)) as server, robot(server) as panda:
        panda.join()
        panda.request(1, "die")
        answer = panda.answer()
        assert (answer.status, answer.cause) == ("failed", "workers_lost")
        wait_for(server, "worker_ready", 3)
        panda.join()
        panda.request(2)
        assert panda.answer().status == "ok"


def test_a_worker_that_cannot_start_is_retried_with_growing_delay(tmp_path: Path) -> None:
    options = {"backend": FAULTY, "options": {"mark": str(tmp_path / "died"), "load_fails": "memory"}}
    with serving(tmp_path, **options) as server, robot(server) as panda:
        wait_for(server, "worker_lost", 2)
        answer = panda.hello()
        assert getattr(answer, "cause", "") == "not_ready"
        assert "out of memory on this GPU" in server.log()


def test_what_only_a_worker_finds_wrong_in_its_configuration_is_said_once_and_ends_the_server(
    tmp_path: Path,
) -> None:
    options = {"backend": FAULTY, "options": {"mark": str(tmp_path / "died"), "load_fails": "config"}}
    with serving(tmp_path, **options) as server:
        assert server.process is not None
        assert server.process.wait(PATIENCE_S) == 2
        (said,) = server.events("worker_misconfigured")
        assert said["reason"] == "weights nowhere.safetensors are missing"
        assert len(server.events("worker_started")) == 1
        assert "models.policy: policy/0.1 cannot work as configured" in server.log()
        assert "Traceback" not in server.log()
        assert server.events("server_stopped") == []
