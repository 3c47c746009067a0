"""Somebody's backend is found where a worker will find it, without being imported."""

from __future__ import annotations

from pathlib import Path

import pytest

from rosa_server.models.options import option_problems

KIND = "class Kind:\n    def __init__(self, weights: str = ''):\n        pass\n"


@pytest.mark.parametrize("package", [(), ("stuff",), ("stuff", "stuff/deep")], ids=["none", "outer", "both"])
def test_a_backend_lies_in_folders_with_and_without_an_init_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stuff" / "deep").mkdir(parents=True)
    (tmp_path / "stuff" / "deep" / "thing.py").write_text(KIND)
    for folder in package:
        (tmp_path / folder / "__init__.py").touch()
    assert option_problems("stuff.deep.thing:Kind", {"weights": ""}) == []
    (other,) = option_problems("stuff.deep.thing:Other", {})
    assert "has no class Other" in str(other)
    (missing,) = option_problems("stuff.deep.nothing:Kind", {})
    assert "there is no module stuff.deep.nothing" in str(missing)
