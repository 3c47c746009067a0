"""A gateway that is started again knows which slots it has given out, or does not start."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from rosa_server.plan.fleet_plan import FleetPlan
from rosa_server.serving.core.sessions.homes import Grant
from rosa_server.serving.edge.slots_file import SlotsFile, SlotsFileError
from tests.unit.server.serving.core.forwarding.pair import HOME, SERVER_ON
from tests.unit.server.serving.core.planned import PLACEMENT

PATIENCE_S = 60.0
GRANTS: dict[str, Grant] = {"pick/0": (3, "r1"), "pick/1": (1, "")}


def test_what_was_kept_is_there_after_a_start_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    file = SlotsFile(folder, "a-5570", "one")
    assert file.load() == {}
    assert file.write(GRANTS)
    assert file.write({**GRANTS, "pick/1": (2, "r2")})
    assert SlotsFile(folder, "a-5570", "one").load() == {"pick/0": (3, "r1"), "pick/1": (2, "r2")}
    assert [path.name for path in folder.iterdir()] == ["a-5570.slots"]
    assert (folder / "a-5570.slots").stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700


def test_slots_of_another_schedule_and_of_another_node_count_for_nothing(tmp_path: Path) -> None:
    SlotsFile(tmp_path, "a-5570", "one").write(GRANTS)
    assert SlotsFile(tmp_path, "a-5570", "two").load() == {}
    assert SlotsFile(tmp_path, "b-5570", "one").load() == {}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        '{"v": 1, "schedule": "one"}',
        '{"v": 2, "schedule": "one", "grants": {}}',
        '{"v": 1, "schedule": "one", "grants": []}',
        '{"v": 1, "schedule": "one", "grants": {"pick/0": [1]}}',
        '{"v": 1, "schedule": "one", "grants": {"pick/0": [true, "r1"]}}',
        '{"v": 1, "schedule": "one", "grants": {"pick/0": [0, "r1"]}}',
        '{"v": 1, "schedule": "one", "grants": {"pick/0": [1, 2]}}',
        "[" * 100_000,
    ],
)
def test_a_file_that_is_none_keeps_the_gateway_from_starting(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a-5570.slots"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(SlotsFileError) as error:
        SlotsFile(tmp_path, "a-5570", "one").load()
    assert error.value.cause == "unreadable" and str(path) in str(error.value)


def test_a_file_that_others_can_write_is_not_used(tmp_path: Path) -> None:
    SlotsFile(tmp_path, "a-5570", "one").write(GRANTS)
    (tmp_path / "a-5570.slots").chmod(0o620)
    with pytest.raises(SlotsFileError) as error:
        SlotsFile(tmp_path, "a-5570", "one").load()
    assert error.value.cause == "not_private"


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    file = SlotsFile(tmp_path / "state", "a-5570", "one")
    assert not file.write(GRANTS), "there is no folder yet"
    file.load()
    assert file.write(GRANTS)
    (tmp_path / "file").touch()
    with pytest.raises(SlotsFileError) as error:
        SlotsFile(tmp_path / "file" / "below", "a-5570", "one").load()
    assert error.value.cause == "cannot_write"


def until(condition: Callable[[], object]) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.002)


def test_it_is_written_beside_what_goes_on_and_what_changes_meanwhile_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = SlotsFile(tmp_path, "a-5570", "one")
    file.load()
    written: list[Mapping[str, Grant]] = []
    goes_on = threading.Event()
    usual = file.write

    def write(grants: Mapping[str, Grant]) -> bool:
        assert goes_on.wait(PATIENCE_S)
        written.append(grants)
        return usual(grants)

    monkeypatch.setattr(file, "write", write)
    first = file.keep({"pick/0": (1, "r0")})
    assert file.kept(first) is None
    later = [file.keep({"pick/0": (1, "r0"), "pick/1": (number, "r1")}) for number in range(1, 50)]
    assert file.kept(later[-1]) is None
    goes_on.set()
    until(lambda: file.kept(later[-1]))
    assert file.kept(first) and len(written) <= 2
    assert SlotsFile(tmp_path, "a-5570", "one").load() == {"pick/0": (1, "r0"), "pick/1": (49, "r1")}


def test_what_could_not_be_written_is_told_and_a_later_one_that_was_counts_for_it(tmp_path: Path) -> None:
    file = SlotsFile(tmp_path / "state", "a-5570", "one")
    first = file.keep(GRANTS)
    until(lambda: file.kept(first) is False)
    file.load()
    second = file.keep(GRANTS)
    file.close()
    assert file.kept(second) is True and file.kept(first) is True
    assert SlotsFile(tmp_path / "state", "a-5570", "one").load() == GRANTS


def test_the_schedule_that_a_gateway_has_got_to_is_kept_with_the_slots(tmp_path: Path) -> None:
    file = SlotsFile(tmp_path, "a-5570", "one")
    assert file.load() == {} and file.plan is None
    plan = FleetPlan(replace(PLACEMENT, epoch=3), SERVER_ON, HOME)
    file.keep({"pick/0": (1, "r0")})
    number = file.keep_plan(plan)
    until(lambda: file.kept(number))
    later = SlotsFile(tmp_path, "a-5570", "one")
    assert later.load() == {"pick/0": (1, "r0")}
    assert later.plan is not None and later.plan.placement == plan.placement
    after = later.keep({"pick/0": (2, "r1")})
    until(lambda: later.kept(after))
    again = SlotsFile(tmp_path, "a-5570", "one")
    assert again.load() == {"pick/0": (2, "r1")} and again.plan is not None and again.plan.epoch == 3
    other = SlotsFile(tmp_path, "a-5570", "two")
    assert other.load() == {} and other.plan is None, (
        "what was got to from another schedule counts for nothing"
    )
