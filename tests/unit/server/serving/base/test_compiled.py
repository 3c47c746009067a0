"""Compiled modules run beside plain files of the same release, or no server starts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rosa_server.serving.base import compiled
from rosa_server.serving.base.release import release
from rosa_server.serving.base.worker_spec import ReleaseError


@pytest.mark.plain
def test_a_checkout_is_not_compiled_and_nothing_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not compiled.compiled()
    monkeypatch.setattr(compiled, "RECORD", Path("no such file"))
    compiled.check_compiled()


@pytest.mark.parametrize("made_of", [release(), "000000000000"])
def test_they_are_of_one_release(made_of: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    record = tmp_path / "compiled.json"
    record.write_text(json.dumps({"release": made_of, "modules": []}))
    monkeypatch.setattr(compiled, "RECORD", record)
    monkeypatch.setattr(compiled, "compiled", lambda: True)
    if made_of == release():
        compiled.check_compiled()
        return
    with pytest.raises(ReleaseError, match="rosa-compiled was made of release 000000000000") as refused:
        compiled.check_compiled()
    assert refused.value.cause == "other_release"


def test_who_has_compiled_modules_without_a_record_made_them_for_one_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(compiled, "RECORD", tmp_path / "none.json")
    monkeypatch.setattr(compiled, "compiled", lambda: True)
    compiled.check_compiled()
