"""What people have done to a server outlives it, in a file that is whole or not there, and is checked when read."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rosa_server.serving.operations.live_state import (
    MAX_FILE_BYTES,
    MAX_TRIES,
    LiveState,
    UnfinishedOrder,
    origin_of,
)
from rosa_server.serving.watching.place import state_path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "5570.state"


def filled(path: Path) -> LiveState:
    state = LiveState(path, "these files")
    state.schedule, state.schedule_file = {"schema": 1}, "/four.json"
    state.weights["policy/0"] = "/new"
    state.drained.add("gpu1/0")
    state.removed["arm7"] = "ann has removed it"
    state.slots.append("pick")
    state.begin(UnfinishedOrder("rollout", "policy", "/new", "ann", ["policy/0"]))
    return state


def read(path: Path, origin: str = "these files") -> LiveState:
    state = LiveState(path, origin)
    state.load()
    return state


def test_what_was_written_is_read_again(path: Path) -> None:
    before, after = filled(path), read(path)
    assert after.schedule == before.schedule and after.schedule_file == "/four.json"
    assert after.weights == before.weights and after.drained == before.drained
    assert after.removed == before.removed and after.slots == ["pick"]
    assert after.unfinished == before.unfinished
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_there_is_no_file_while_nothing_was_done_or_all_was_taken_back(path: Path) -> None:
    state = LiveState(path, "these files")
    state.save()
    assert not path.exists()
    state.drained.add("gpu1/0")
    state.save()
    assert path.exists()
    state.drained.clear()
    state.save()
    assert not path.exists()
    filled(path).discard()
    assert not path.exists() and not list(path.parent.iterdir())


def test_reading_changes_nothing_as_the_server_of_the_port_may_run(path: Path) -> None:
    filled(path)
    before = path.read_bytes()
    read(path)
    read(path, "other files")
    assert path.read_bytes() == before


def broken(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        data = json.loads(path.read_bytes())
        changed = change(data)
        path.write_text(json.dumps(data if changed is None else changed))

    return write


@pytest.mark.parametrize(
    "damage",
    [
        broken(lambda data: data.update(v=2)),
        broken(lambda data: data.update(more=1)),
        broken(lambda data: data.update(origin="others")),
        broken(lambda data: data.update(tries=MAX_TRIES)),
        broken(lambda data: data.update(tries="0")),
        broken(lambda data: data.update(schedule=[1])),
        broken(lambda data: data.update(schedule_file=3)),
        broken(lambda data: data.update(weights=["/new"])),
        broken(lambda data: data.update(weights={"policy/0": 3})),
        broken(lambda data: data.update(drained="gpu1/0")),
        broken(lambda data: data.update(drained=[["gpu1/0"]])),
        broken(lambda data: data.update(removed={"arm7": "x" * 2000})),
        broken(lambda data: data.update(slots={"pick": 1})),
        broken(lambda data: data.update(unfinished=[{"what": "drain"}])),
        broken(lambda data: [data]),
        lambda path: path.write_bytes(path.read_bytes()[:-20]),
        lambda path: path.write_bytes(b"\xff\x00"),
        lambda path: path.write_text("[" * 100_000),
        lambda path: path.write_bytes(b" " * (MAX_FILE_BYTES + 1)),
        lambda path: path.chmod(0o666),
    ],
)
def test_what_is_not_as_it_should_be_is_not_used(path: Path, damage: Callable[[Path], None]) -> None:
    filled(path)
    damage(path)
    assert read(path).empty


def test_a_state_with_which_no_server_gets_ready_is_given_up(path: Path) -> None:
    filled(path)
    for _ in range(MAX_TRIES):
        state = read(path)
        assert not state.empty
        state.save()
    assert read(path).empty


def test_a_disk_that_takes_nothing_leaves_the_server_running(tmp_path: Path) -> None:
    state = LiveState(tmp_path / "no folder" / "5570.state", "these files")
    state.drained.add("gpu1/0")
    state.save()
    state.save()
    assert not state.empty


def test_the_origin_is_what_the_files_contain(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("a")
    two.write_text("a")
    assert origin_of(str(one), "") == origin_of(str(two), "")
    two.write_text("b")
    assert origin_of(str(one), "") != origin_of(str(two), "")
    assert origin_of(str(one), str(two)) != origin_of(str(one), "")


def test_each_port_has_a_file_and_a_port_that_nobody_knows_yet_has_none(tmp_path: Path) -> None:
    folder = tmp_path / "private"
    assert state_path("auto", "tcp://127.0.0.1:5570", folder) == folder / "5570.state"
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    for endpoint in ("tcp://127.0.0.1:*", "tcp://127.0.0.1:0"):
        assert state_path("auto", endpoint, folder) is None
    assert state_path("", "tcp://127.0.0.1:5570", folder) is None
    own = folder / "own.state"
    assert state_path(str(own), "tcp://127.0.0.1:*") == own
