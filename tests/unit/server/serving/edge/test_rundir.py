"""The private folder of a server's worker socket, where the folder of temporary files is not what it should be."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from rosa_server.serving.edge.rundir import RundirError, make_rundir


@pytest.fixture(autouse=True)
def _temporary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)  # asked again


def test_the_folder_is_private_and_holds_a_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(prefix="rosa-", dir="/tmp") as short:
        monkeypatch.setenv("TMPDIR", short)
        monkeypatch.setattr(tempfile, "tempdir", None)
        folder = make_rundir()
        assert folder.parent == Path(short) and folder.stat().st_mode & 0o777 == 0o700


def test_a_path_too_long_for_a_socket_is_said_as_that_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """libzmq says "Address already in use" or "File name too long", of the robots' port as well as of this."""
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setenv("TMPDIR", str(long))
    with pytest.raises(RundirError) as caught:
        make_rundir()
    assert caught.value.cause == "path_too_long"
    assert str(long) in str(caught.value) and "TMPDIR" in str(caught.value)
    assert not list(long.iterdir())


def test_a_folder_that_cannot_be_written_is_said_as_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "mkdtemp", full)
    with pytest.raises(RundirError, match="No space left on device") as caught:
        make_rundir()
    assert caught.value.cause == "cannot_write"
