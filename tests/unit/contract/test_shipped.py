"""The shipped files are found wherever the packages lie."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from rosa_contract import shipped as module


def test_a_checkout_may_be_a_folder_of_the_root_as_in_a_container(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as folder:  # not `tmp_path`, which is deep
        (Path(folder) / "configs").mkdir()
        monkeypatch.setattr(module, "__file__", str(Path(folder) / "rosa_contract" / "shipped.py"))
        assert module.shipped("configs", "profiles") == Path(folder).resolve() / "configs" / "profiles"


def test_an_installed_package_has_them_in_the_share_of_its_prefix(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    packages = tmp_path / "lib" / "python3.11" / "site-packages"
    monkeypatch.setattr(module, "__file__", str(packages / "rosa_contract" / "shipped.py"))
    assert module.shipped("configs") == tmp_path.resolve() / "share" / "rosa_client" / "configs"
