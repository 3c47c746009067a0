"""`make test-pythons` finds what it runs. The tests themselves take minutes for each Python."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def pythons(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "scripts")
    return importlib.import_module("pythons")


def test_its_tests_exist_and_its_plugin_is_found(
    pythons: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[list[str], dict[str, str]]] = []

    class Ended:
        returncode = 0

    def run(command: list[Any], cwd: Path, env: dict[str, str]) -> Ended:
        asked.append(([str(word) for word in command], env))
        return Ended()

    monkeypatch.setattr(pythons.subprocess, "run", run)
    assert pythons.tested(Path("python"), pythons.TESTS) == 0
    [(command, environment)] = asked
    plugins = {command[at + 1] for at, word in enumerate(command) if word == "-p"} - {"no:cacheprovider"}
    folders = [Path(folder) for folder in environment["PYTHONPATH"].split(":")]
    for plugin in plugins:
        assert any((folder / f"{plugin}.py").is_file() for folder in folders), plugin
    left_out = [
        word.partition("=")[2].partition("::")[0] for word in command if word.startswith("--deselect=")
    ]
    for path in (*pythons.TESTS, *left_out):
        assert (ROOT / path).exists(), path
