"""The environment of `make test-franka`: every version is pinned, and the model is where the simulator finds it."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def franka_env(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "scripts")
    return importlib.import_module("franka_env")


def models(venv: Path, text: str) -> Path:
    folder = venv / "lib" / "python3.11" / "site-packages" / "franky_sim" / "assets"
    folder.mkdir(parents=True)
    (folder / "fr3.xml").write_text(text)
    return folder


def test_the_model_finds_its_meshes_from_anywhere(franka_env: ModuleType, tmp_path: Path) -> None:
    folder = models(tmp_path, '<compiler meshdir="assets"/>')
    franka_env.write_model(tmp_path)
    assert (tmp_path / "fr3.xml").read_text() == f'<compiler meshdir="{folder / "meshes"}"/>'


def test_another_model_is_not_taken_for_it(franka_env: ModuleType, tmp_path: Path) -> None:
    models(tmp_path, "<mujoco/>")
    with pytest.raises(franka_env.SetupError, match="another franky-sim"):
        franka_env.write_model(tmp_path)


def test_it_is_made_once_and_again_when_what_it_depends_on_has_changed(
    franka_env: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Path] = []
    monkeypatch.setattr(franka_env, "install", made.append)
    franka_env.make(tmp_path)
    franka_env.make(tmp_path)
    assert made == [tmp_path]
    monkeypatch.setattr(franka_env, "PINNED", ROOT / "requirements" / "franka.txt")
    franka_env.make(tmp_path)
    assert made == [tmp_path, tmp_path]


def test_every_version_is_pinned_and_the_library_is_the_one_of_the_products_list() -> None:
    pinned = (ROOT / "requirements" / "franka-test.txt").read_text().split()
    assert all(re.fullmatch(r"[\w-]+==[\w.]+", line) for line in pinned)
    (library,) = [line for line in pinned if line.startswith("franka-rs==")]
    assert library in (ROOT / "requirements" / "constraints.txt").read_text().split()
