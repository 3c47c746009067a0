"""What a server has learned of tasks outlives it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rosa_server.serving.core.queueing.lengths import TaskLengths
from rosa_server.serving.edge.lengths_file import MAX_FILE_BYTES, SAVE_EVERY_S, LengthsFile


def some() -> TaskLengths:
    lengths = TaskLengths()
    for acted_s in (4.0, 5.0, 6.0, 7.0, 8.0):
        lengths.ended("pick: cube", acted_s, 4)
    return lengths


def test_the_next_server_expects_what_the_last_one_learned(tmp_path: Path) -> None:
    path, lengths, later = tmp_path / "state" / "lengths.json", some(), TaskLengths()
    LengthsFile(str(path), lengths).save()
    LengthsFile(str(path), later)
    assert later.left_s("pick: cube", 5.5) == pytest.approx(lengths.left_s("pick: cube", 5.5))
    assert [each.name for each in path.parent.iterdir()] == ["lengths.json"], "nothing else is left there"


def test_it_saves_now_and_then_and_only_what_is_new(tmp_path: Path) -> None:
    path, lengths = tmp_path / "lengths.json", some()
    file = LengthsFile(str(path), lengths)
    file.step(100.0)
    before = path.read_text()
    path.unlink()
    file.step(100.0 + 2 * SAVE_EVERY_S)
    assert not path.exists(), "nothing is new"
    lengths.ended("pick: cube", 9.0, 4)
    file.step(101.0 + 2 * SAVE_EVERY_S)
    assert not path.exists(), "not yet"
    file.step(100.0 + 4 * SAVE_EVERY_S)
    assert len(path.read_text()) > len(before)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"a": 3}', b"[" * 100_000, b"\xff\xfe", b" " * (MAX_FILE_BYTES + 1)]
)
def test_a_damaged_file_is_no_reason_not_to_start(tmp_path: Path, content: bytes) -> None:
    path, lengths = tmp_path / "lengths.json", TaskLengths()
    path.write_bytes(content)
    LengthsFile(str(path), lengths)
    assert len(lengths) == 0


def test_a_place_that_cannot_be_written_costs_nothing_but_the_memory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    LengthsFile(str(tmp_path / "file" / "lengths.json"), some()).save()
    LengthsFile("", some()).save()


def test_what_could_not_be_written_is_saved_later(tmp_path: Path) -> None:
    path, lengths = tmp_path / "lengths.json", some()
    path.mkdir()  # in the way
    file = LengthsFile(str(path), lengths)
    file.save()
    path.rmdir()
    file.save()
    assert path.is_file() and not lengths.changed
