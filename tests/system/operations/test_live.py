"""A person drains a worker of a running server, gives it back, and rolls out new weights: no call is lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rosa_contract.wire import messages as m
from tests.system.operations.asking import asking, rosa
from tests.system.server_harness import PATIENCE_S, ROOT, Server, robot, serving

BACKEND = "tests.system.operations.backend:NumberBackend"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def server(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(home))
    (tmp_path / "one").write_text("1")
    (tmp_path / "two").write_text("2")
    (tmp_path / "damaged").write_text("no number")
    (tmp_path / "endless").write_text("never")
    (tmp_path / "worse").write_text("-1")
    (tmp_path / "same").write_text("1.0")
    options = {"weights": str(tmp_path / "one")}
    with serving(tmp_path, backend=BACKEND, options=options, workers=2) as made:
        yield made


def numbers(answers: list[m.Response]) -> set[float]:
    assert all(one.status == m.OK for one in answers), [one for one in answers if one.status != m.OK]
    return {float(one.output.arrays["actions"][0][0]) for one in answers if one.output is not None}


def test_a_worker_is_drained_given_back_and_gets_new_weights_while_a_robot_asks_on(
    server: Server, tmp_path: Path
) -> None:
    with robot(server) as one:
        one.join()
        while len(server.events("worker_ready")) < 2:
            one.hello()
        with asking(one) as asks:
            told = rosa("drain", "policy/0")
            assert (told.returncode, told.stdout) == (0, "policy/0 is drained\n"), told.stderr
            assert len(server.workers()) == 1, "it has ended and was not started again"
            told = rosa("drain", "policy/1")
            assert told.returncode == 2 and "nobody_else" in told.stderr

            listed = rosa("robots", "--json", "--seconds", "3")
            assert listed.returncode == 0, listed.stderr
            (row,) = json.loads(listed.stdout)
            assert (row["robot"], row["component"], row["server"]) == ("r1", "system1", "policy")
            assert row["model"] == "policy", "as the server says of itself"
            assert row["calls_per_s"] > 0 and row["worst_left"] > 0

            assert rosa("undrain", "policy/0").returncode == 0
            damaged = rosa("rollout", "policy", str(tmp_path / "damaged"))
            assert damaged.returncode == 2 and "not_warm" in damaged.stderr
            assert numbers(list(asks.answers)) == {1.0}

            told = rosa("rollout", "policy", str(tmp_path / "two"))
            assert told.returncode == 0, told.stderr
            before = len(asks.answers)
            while len(asks.answers) < before + 5 and asks.failed is None:
                time.sleep(0.01)
        assert numbers(asks.answers) == {1.0, 2.0}
        assert numbers(asks.answers[before + 1 :]) == {2.0}
    assert len(server.workers()) == 2
    steps = [(one["what"], one["step"]) for one in server.events("operation")]
    assert (
        ("drain", "refused") in steps and ("rollout", "failed") in steps and steps[-1] == ("rollout", "done")
    )
    assert all(one["by"] for one in server.events("operation")), "every line says who"


def test_ctrl_c_cancels_a_rollout_and_a_removed_robot_stays_out_until_it_is_admitted(
    server: Server, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "rosa_server.cli", "rollout", "policy", str(tmp_path / "endless")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with robot(server) as one, robot(server, "r2") as two:
        one.join()
        two.join()
        with asking(one) as asks:
            ordered = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
            try:
                assert ordered.stderr is not None
                while "starts with the new weights" not in (line := ordered.stderr.readline()):
                    assert line, "it has ended before"
                listed = rosa("robots", "--seconds", "1.5")
                assert "rollout policy by" in listed.stdout and "0 of 2 workers" in listed.stdout, listed
                ordered.send_signal(signal.SIGINT)
                _, words = ordered.communicate(timeout=PATIENCE_S)
            finally:
                ordered.kill()
                ordered.wait(PATIENCE_S)
            assert ordered.returncode == 130 and "cancelled" in words, words

            two.join()  # who has said nothing for so long is not here any more
            removed = rosa("remove", "r2")
            assert removed.returncode == 0, removed.stderr
            told = two.receive()
            assert isinstance(told, m.Refused) and told.cause == "removed"
            again = two.hello()
            assert isinstance(again, m.Refused) and again.cause == "removed"
            assert "r2 is removed" in rosa("robots", "--seconds", "1.5").stdout
            assert rosa("admit", "r2").returncode == 0
            two.join()
            assert "no_slots" in rosa("admit", "--task", "pick").stderr
        assert numbers(asks.answers) == {1.0}, "nobody else has lost a call"
    steps = [(one["what"], one["step"]) for one in server.events("operation")]
    assert ("rollout", "cancelled") in steps and ("remove", "done") in steps and ("admit", "done") in steps


def test_weights_that_fail_are_found_by_a_canary_and_the_old_ones_serve_on(
    server: Server, tmp_path: Path
) -> None:
    with robot(server) as one:
        one.join()
        while len(server.events("worker_ready")) < 2:
            one.hello()
        with asking(one) as asks:
            told = rosa("rollout", "policy", str(tmp_path / "worse"), "--canary", "1")
            assert told.returncode == 2 and "(worse)" in told.stderr, told
            assert "share their calls for 1 s" in told.stderr
            before = len(asks.answers)
            while len(asks.answers) < before + 5 and asks.failed is None:
                time.sleep(0.01)
        assert numbers(asks.answers[before + 1 :]) == {1.0}, "nobody meets the new weights any more"
        assert {answer.status for answer in asks.answers} <= {m.OK, m.FAILED}
    assert len(server.workers()) == 2
    assert [line["step"] for line in server.events("operation")][-1] == "failed"


def test_weights_that_do_as_well_are_promoted_by_a_canary(server: Server, tmp_path: Path) -> None:
    """Nothing depends on how fast anything is: no call has a deadline that could pass, and any run time is allowed."""
    with robot(server) as one, robot(server, "r2") as two:
        one.join()
        two.join()
        while len(server.events("worker_ready")) < 2:
            one.hello()
        with asking(one) as asks, asking(two) as others:
            told = rosa("rollout", "policy", str(tmp_path / "two"), "--canary", "2", "--slower", "1000")
            assert told.returncode == 0, told
            assert "does as well" in told.stderr
            before = len(asks.answers)
            while len(asks.answers) < before + 5 and asks.failed is None:
                time.sleep(0.01)
        assert numbers(asks.answers) | numbers(others.answers) == {1.0, 2.0}
        assert numbers(asks.answers[before + 1 :]) == {2.0}
    steps = [line["step"] for line in server.events("operation")]
    assert "promoted" in steps and steps[-1] == "done" and len(server.workers()) == 2


def test_in_the_shadow_other_weights_are_found_and_equal_ones_promoted_and_no_robot_hears_of_it(
    server: Server, tmp_path: Path
) -> None:
    with robot(server) as one:
        one.join()
        while len(server.events("worker_ready")) < 2:
            one.hello()
        shadow = ("--shadow", "2", "--share", "0.5", "--slower", "1000")
        with asking(one) as asks:
            told = rosa("rollout", "policy", str(tmp_path / "two"), *shadow)
            assert told.returncode == 2 and "actions differ" in told.stderr and "(worse)" in told.stderr, told
            assert "answers copies for 2 s" in told.stderr
            assert len(server.workers()) == 2
            told = rosa("rollout", "policy", str(tmp_path / "same"), *shadow)
            assert told.returncode == 0 and "distance of" in told.stderr, told
        assert numbers(asks.answers) == {1.0}, "every answer is of the old weights, or of equal ones"
    ready = [line["worker"] for line in server.events("worker_ready")]
    assert len(ready) == 2 + 1 + 2 and len(server.workers()) == 2
    steps = [line["step"] for line in server.events("operation")]
    assert "reverted" in steps and "promoted" in steps and steps[-1] == "done"


def test_without_a_server_the_commands_say_so(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(home))
    for words in (("robots",), ("drain", "gpu0"), ("rollout", "policy", "/nowhere")):
        told = rosa(*words)
        assert (
            told.returncode == 2
            and "no server of this user answers" in told.stderr
            and "rosa serve" in told.stderr
        )
