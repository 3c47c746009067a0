"""Environments beside ROSA's own, as that of `make test-ray`: versions are pinned, as in ROSA's where both have one."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def beside_env(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "scripts")
    module = importlib.import_module("beside_env")

    def run(command: list[Any], step: str) -> None:
        if step == "ray_venv":  # what the real one makes
            (Path(command[-1]) / "lib" / "python3.11" / "site-packages").mkdir(parents=True)

    for name in ("beside_env", "setup_steps"):
        monkeypatch.setattr(importlib.import_module(name), "run", run)
    return module


def test_every_version_is_pinned_and_none_contradicts_rosas_own() -> None:
    pins = dict(line.split("==") for line in (ROOT / "requirements" / "ray-test.txt").read_text().split())
    ours = dict(line.split("==") for line in (ROOT / "requirements" / "constraints.txt").read_text().split())
    assert set((ROOT / "requirements" / "ray.txt").read_text().split()) <= set(pins)
    assert {name: ours[name] for name in pins.keys() & ours.keys()} == {
        name: pins[name] for name in pins.keys() & ours.keys()
    }


def test_it_finds_rosas_packages_behind_its_own(beside_env: ModuleType, tmp_path: Path) -> None:
    beside = tmp_path / ".venv" / "lib" / "python3.11" / "site-packages"
    beside.mkdir(parents=True)
    beside_env.install("ray", tmp_path / ".venv-ray", tmp_path / ".venv")
    (path,) = (tmp_path / ".venv-ray").rglob("*.pth")
    assert str(beside) in path.read_text()


def test_without_rosas_environment_it_says_how_to_make_one(beside_env: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(importlib.import_module("setup_steps").SetupError, match="make setup"):
        beside_env.install("ray", tmp_path / ".venv-ray", tmp_path / ".venv")
