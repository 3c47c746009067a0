"""A server is killed (SIGKILL) while people work on it: the one that follows goes on where it was."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rosa_contract.wire import messages as m
from tests.system.operations.asking import environment, rosa
from tests.system.schedule.plans import FLEET, planned
from tests.system.server_harness import PATIENCE_S, Server, robot, serving

LONG_S = 3 * PATIENCE_S  # several processes start
BACKEND = "tests.system.operations.backend:NumberBackend"
FACTORY = (
    FLEET
    + """
models:
  emulated/policy: {{backend: "{backend}", options: {options}}}
  emulated/guard: {{backend: emulated, options: {{latency_ms: 20, verdict: safe}}}}
"""
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    (tmp_path / "one").write_text("1")
    (tmp_path / "two").write_text("2")
    (tmp_path / "gate").write_text("")
    return folder


def state(home: Path) -> list[Path]:
    return list((home / "rosa").glob("*.state"))


def until(condition: Callable[[], Any], what: str) -> Any:
    end_s = time.monotonic() + LONG_S
    while not (found := condition()):
        assert time.monotonic() < end_s, f"{what} did not happen within {LONG_S:g} s"
        time.sleep(0.02)
    return found


def steps(server: Server, step: str) -> list[dict[str, Any]]:
    return [line for line in server.events("operation") if line["step"] == step]


@contextmanager
def ordering(*words: str) -> Iterator[None]:
    """A command of a person who waits for its end, which does not come."""
    command = [sys.executable, "-m", "rosa_server.cli", *words]
    ordered = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment()
    )
    try:
        yield
    finally:
        ordered.kill()
        ordered.wait(PATIENCE_S)


def killed(server: Server) -> None:
    server.kill()
    server.start()


def answered(server: Server, **asks: Any) -> float:
    with robot(server) as one:
        one.join("pick", **({"cameras": {}} if "images" in asks else {}))
        one.request(1, **asks)
        answer = one.answer()
        assert answer.status == m.OK and answer.output is not None, answer
        return float(answer.output.arrays["actions"][0][0])


def test_a_rollout_goes_on_after_each_kill_and_is_not_begun_again(home: Path, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    options = {"weights": str(tmp_path / "one"), "gate": str(gate)}
    with serving(tmp_path, backend=BACKEND, options=options, workers=2) as server:
        until(lambda: "ROSA is ready" in server.log(), "the start")
        until(lambda: len(server.events("worker_ready")) == 2, "both workers")
        gate.unlink()  # nothing loads from now on
        with ordering("rollout", "policy", str(tmp_path / "two")):
            until(lambda: steps(server, "started"), "the first step")
            server.kill()
        gate.write_text("")
        server.start()
        (line,) = until(lambda: steps(server, "continued"), "going on")
        assert (line["what"], line["target"]) == ("rollout", "policy") and line["by"]
        until(lambda: steps(server, "done"), "its end")
        assert answered(server) == 2.0

        killed(server)
        (line,) = until(lambda: server.events("live_state_restored")[1:], "another start")
        assert line["weights"] == {f"policy/{n}": str(tmp_path / "two") for n in range(2)}
        assert answered(server) == 2.0, "the new weights stay"
        assert len(steps(server, "continued")) == 1, "what has ended is not gone on with"
        server.stop(signal.SIGTERM)
        assert not state(home), "an end in order leaves nothing: the next start begins with its command line"


def test_a_scaled_schedule_and_what_was_drained_and_removed_outlive_a_kill(
    home: Path, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    options = {"weights": str(tmp_path / "one"), "gate": str(gate), "blind": True}
    asks: dict[str, Any] = {"images": {}}
    of_server = {"factory": FACTORY, "backend": BACKEND, "options": options}
    with planned(tmp_path, "--what-if", "servers=2", **of_server) as (server, _):
        server.start()
        assert answered(server, **asks) == 1.0
        gate.unlink()
        with ordering("scale", "servers=4", "--save", str(tmp_path / "four.json")):
            until(lambda: steps(server, "started"), "the first stage")
            server.kill()
        gate.write_text("")
        server.start()
        until(lambda: steps(server, "continued"), "going on")
        until(lambda: steps(server, "done"), "its end")
        assert len(server.workers()) == 4

        standing = next(
            name
            for name in sorted({one["worker"].rpartition("/")[0] for one in server.events("worker_ready")})
            if rosa("drain", name).returncode == 0
        )
        with robot(server, "r2") as two:
            two.join("pick", cameras={})
            assert rosa("remove", "r2").returncode == 0
        killed(server)
        until(lambda: server.events("live_state_restored")[1:], "another start")
        assert answered(server, **asks) == 1.0
        told = rosa("robots", "--seconds", "1.5").stdout
        assert f"{standing}/0 is drained" in told and "r2 is removed" in told
        until(lambda: len(server.workers()) == 3, "all but the drained one")
        with robot(server, "r2") as two:
            answer = two.hello("pick", cameras={})
            assert isinstance(answer, m.Refused) and answer.cause == "removed"
        assert rosa("undrain", standing).returncode == 0
        until(lambda: len(server.workers()) == 4, "the drained one back")
