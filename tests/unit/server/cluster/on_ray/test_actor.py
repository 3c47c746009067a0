"""The workers of one part: what they print is read, whether somebody looks or not."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rosa_server.cluster.on_ray.actor import MAX_TEXT_BYTES, WorkerActor

PATIENCE_S = 60.0
KEYS = {"public": "a", "secret": "b", "server": "c"}
LINE = "what a library says of one batch"


@pytest.fixture
def actor(monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkerActor]:
    # The watch ends a process that nobody asks for long, which would be that of the tests.
    monkeypatch.setattr(WorkerActor, "_watch", lambda self: None)
    made = WorkerActor()
    yield made
    made.end(0.0)


def begin(actor: WorkerActor, folder: Path, program: str) -> None:
    """Start a worker whose Python is this program of a shell."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\ncd {folder}\n{program}\n")
    path.chmod(0o700)
    about = {"worker_id": "policy/0.1", "model": "policy", "backend": "emulated", "endpoint": ""}
    assert actor.start({**about, "python": str(path), "keys": dict(KEYS)}) == ""


def test_a_worker_does_not_wait_for_somebody_to_read_what_it_prints(
    actor: WorkerActor, tmp_path: Path
) -> None:
    begin(
        actor, tmp_path, f"yes '{LINE}' | head -n 10000; touch printed; echo the last words; exec sleep 600"
    )
    end_s = time.monotonic() + PATIENCE_S
    while not (tmp_path / "printed").exists():
        assert time.monotonic() < end_s, "it waits"
        time.sleep(0.01)
    said = ""
    while not said.endswith("the last words\n"):
        assert time.monotonic() < end_s
        status, text = actor.look()["policy/0.1"]
        said += text
    assert status is None and len(said) <= 2 * MAX_TEXT_BYTES and LINE in said


def test_the_last_words_of_a_worker_come_with_its_end_and_it_is_forgotten(
    actor: WorkerActor, tmp_path: Path
) -> None:
    begin(actor, tmp_path, "echo no such weights; exit 3")
    end_s, said, status = time.monotonic() + PATIENCE_S, "", None
    while status is None:
        assert time.monotonic() < end_s
        status, text = actor.look()["policy/0.1"]
        said += text
    assert (status, said) == (3, "no such weights\n") and actor.look() == {}
