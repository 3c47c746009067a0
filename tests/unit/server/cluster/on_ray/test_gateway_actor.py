"""The process of a gateway is kept running, and ends with whoever keeps it."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rosa_server.cluster.on_ray import gateway_actor
from rosa_server.cluster.on_ray.gateway_actor import GatewayActor

PATIENCE_S = 60.0
SERVES = """
import sys, time
print("rosa", *sys.argv[1:], flush=True)
print("ROSA is ready on tcp://127.0.0.1:1", flush=True)
time.sleep(600)
"""
REFUSES = "import sys; print('rosa serve: no such node'); print('{}'); sys.exit(2)"


def until(condition: Callable[[], object]) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.02)


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], GatewayActor]]:
    made: list[GatewayActor] = []

    def begin(program: str) -> GatewayActor:
        monkeypatch.setattr(gateway_actor, "COMMAND", (sys.executable, "-c", program))
        words = ["serve", "--nodes", "{folder}/nodes.yaml", "--node", "a"]
        made.append(GatewayActor(words, {"nodes.yaml": "nodes: {}"}, str(tmp_path)))
        return made[-1]

    yield begin
    for one in made:
        one.end(0.0)


def test_a_gateway_that_ends_is_started_again_and_ends_with_its_actor(
    make: Callable[[str], GatewayActor], tmp_path: Path
) -> None:
    actor = make(SERVES)
    until(lambda: actor.look()["ready"])
    first = actor.look()
    folder = tmp_path / "gateway-a"
    assert (folder / "nodes.yaml").read_text() == "nodes: {}"
    assert f"rosa serve --nodes {folder}/nodes.yaml --node a" in Path(first["log"]).read_text()
    os.kill(first["pid"], signal.SIGKILL)
    until(lambda: actor.look()["lives"] == 2 and actor.look()["ready"])
    again = actor.look()
    assert again["pid"] != first["pid"] and not again["refused"]
    actor.end(PATIENCE_S)
    with pytest.raises(ProcessLookupError):
        os.kill(again["pid"], 0)
    assert actor.look()["pid"] is None


def test_what_cannot_be_served_says_why(make: Callable[[str], GatewayActor]) -> None:
    actor = make(REFUSES)
    until(lambda: actor.look()["refused"])
    assert actor.look()["refused"] == "rosa serve: no such node" and not actor.look()["ready"]


def test_a_log_that_cannot_be_begun_anew_is_a_reason_and_is_tried_again(
    make: Callable[[str], GatewayActor], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway_actor, "MAX_LOG_BYTES", 0)
    log = tmp_path / "gateway-a" / "gateway.log"
    (log / "in_the_way").mkdir(parents=True)
    actor = make(SERVES)
    until(lambda: "could not be started" in str(actor.look()["refused"]))
    (log / "in_the_way").rmdir()
    log.rmdir()
    until(lambda: actor.look()["lives"] == 1)
