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


def pins(name: str) -> dict[str, str]:
    """Package -> version, of a list."""
    return dict(line.split("==") for line in (ROOT / "requirements" / f"{name}.txt").read_text().split())


@pytest.mark.parametrize("name", ["ray", "serve"])
def test_every_version_is_pinned_and_none_contradicts_rosas_own(name: str) -> None:
    theirs, ours = pins(f"{name}-test"), pins("constraints")
    assert {one: ours[one] for one in theirs.keys() & ours.keys()} == {
        one: theirs[one] for one in theirs.keys() & ours.keys()
    }


def test_ray_is_in_its_own_list_and_serve_brings_no_other_one() -> None:
    assert set((ROOT / "requirements" / "ray.txt").read_text().split()) <= set(pins("ray-test"))
    assert not pins("serve-test").keys() & pins("ray-test").keys()


def test_it_finds_rosas_packages_behind_its_own(beside_env: ModuleType, tmp_path: Path) -> None:
    beside = tmp_path / ".venv" / "lib" / "python3.11" / "site-packages"
    beside.mkdir(parents=True)
    beside_env.install("ray", tmp_path / ".venv-ray", tmp_path / ".venv")
    (path,) = (tmp_path / ".venv-ray").rglob("*.pth")
    assert str(beside) in path.read_text()


def test_without_rosas_environment_it_says_how_to_make_one(beside_env: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(importlib.import_module("setup_steps").SetupError, match="make setup"):
        beside_env.install("ray", tmp_path / ".venv-ray", tmp_path / ".venv")
