"""`rosa view` says in one line what it lacks, and finds a run's recording."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rosa_server.cli import main


@pytest.mark.parametrize(
    ("words", "library", "says"),
    [
        (["RUN"], "foxglove", "foxglove-sdk is not installed here: pip install foxglove-sdk"),
        (["RUN", "--rerun"], "rerun", "--rerun: rerun-sdk is not installed here: pip install rerun-sdk"),
        (["--gateway", "ipc:///nobody"], "foxglove", "foxglove-sdk is not installed here"),
    ],
    ids=["a recording", "rerun", "a running server"],
)
def test_without_its_library_it_says_which(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    library: str,
    says: str,
) -> None:
    monkeypatch.setitem(sys.modules, library, None)  # as where it is not installed
    assert main(["view", *(str(tmp_path) if word == "RUN" else word for word in words)]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert says in line


@pytest.mark.parametrize(
    "words", [["--rerun"], ["--save", "run.rrd"]], ids=["a running server", "a file for another viewer"]
)
def test_what_rerun_does_not_do_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["view", *words]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("rosa view: --")
