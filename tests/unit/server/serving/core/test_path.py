"""How far a request walks through the server's decisions: who reads them has at most this many files to open."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from rosa_contract.wire import codec
from rosa_contract.wire.progress import Progress
from tests.unit.server.serving.core.planned import PLACEMENT, planned
from tests.unit.server.serving.core.stage import Stage, request

ROOT = Path(__file__).parents[5]
CORE = "rosa_server/serving/core"
MAX_FILES = 14  # in one direction
TIMES_MS = {1: 50.0, 2: 60.0, 4: 80.0}
# A schedule as `rosa plan` makes it: batches in time, robots that ask before they call.
SCHEDULE = replace(
    PLACEMENT,
    replicas={
        name: replace(one, batch=2, deadline_aware=True, permits=True, service_ms=TIMES_MS)
        for name, one in PLACEMENT.replicas.items()
    },
    adaptive=True,
)


def files_of(walk: Callable[[], None]) -> set[str]:
    """The project's files of which some function ran meanwhile."""
    found: set[str] = set()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            found.add(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        walk()
    finally:
        sys.setprofile(before)
    inside = (Path(name) for name in found)
    names = {str(path.relative_to(ROOT)) for path in inside if path.is_relative_to(ROOT)}
    return {name for name in names if name.startswith("rosa_")}


def without_a_schedule() -> Stage:
    return Stage().open("r1")


def with_a_schedule() -> Stage:
    stage = planned(placement=SCHEDULE)
    for robot in ("r1", "r2"):
        stage.greet(robot)
    return stage


@pytest.mark.plain
@pytest.mark.parametrize("begin", [without_a_schedule, with_a_schedule])
def test_a_request_passes_few_files_in_each_direction(begin: Callable[[], Stage]) -> None:
    """The first request of a task, and another one."""
    stage = begin()
    for number in range(2):
        stage.now_s += 1.5
        frames = codec.encode(request(number, progress=Progress(7, number, 0.0, "stack")))
        arrival = (stage.now_s, b"r1", codec.read_header(frames), frames)

        def comes(arrival: tuple[Any, ...] = arrival) -> None:
            stage.core.on_request(*arrival)
            stage.settle()

        asked = files_of(comes)
        assert len(stage.dispatched) == number + 1, "a worker was given the request"
        assert {f"{CORE}/dispatch/core.py", f"{CORE}/dispatch/lane.py"} <= asked
        assert len(asked) <= MAX_FILES, "\n".join(["files from request to dispatch:", *sorted(asked)])
        stage.now_s += 0.05
        [worker] = [name for name, held in stage.held.items() if held]
        answered = files_of(partial(stage.finish, worker, 50.0))
        assert len(stage.answers) == number + 1 and stage.answers[-1].status == "ok"
        assert f"{CORE}/dispatch/core.py" in answered
        assert len(answered) <= MAX_FILES, "\n".join(["files from answer to reply:", *sorted(answered)])
