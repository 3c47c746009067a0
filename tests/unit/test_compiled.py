"""The cores compiled: a copy beside the checkout, which the command finds first; the checkout stays as it is."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
ONE = "rosa_server/serving/core/batch_profile.py"
WHERE = (
    "from rosa_server.serving.core import batch_profile, queue\n"
    "print(batch_profile.__file__, queue.__file__, batch_profile.BatchProfile({1: 10.0}).service_s(1))"
)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "scripts")
    return importlib.import_module("compiled")


def test_the_cores_of_robot_gateway_and_simulator_are_compiled(compiled: ModuleType) -> None:
    found = compiled.cores()
    assert {"rosa_client/runtime/runtime.py", "rosa_server/serving/core/core.py"} < set(found)
    assert {"rosa_client/motion/limits.py", "rosa_sim/fleet/simulation.py"} < set(found)
    assert "rosa_server/serving/core/limits.py" not in found
    assert all((ROOT / path).is_file() for path in found)


@pytest.mark.slow
def test_a_command_finds_the_compiled_module_first_and_runs_it(compiled: ModuleType, tmp_path: Path) -> None:
    folder = compiled.built([ONE], tmp_path)
    program = f"import compiled, pathlib; compiled.become(['-c', {WHERE!r}], pathlib.Path({str(folder)!r}))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT / "scripts",
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    module, plain, service_s = done.stdout.split()
    assert Path(module).parent.is_relative_to(folder)
    assert Path(module).suffix == ".so"
    assert Path(plain) == folder / "rosa_server/serving/core/queue.py"
    assert float(service_s) == pytest.approx(0.01)
    assert compiled.built([ONE], tmp_path) == folder
    assert not list((ROOT / "rosa_server").rglob("*.so"))


def test_a_missing_compiler_is_said(
    compiled: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(compiled.SetupError, match="no C compiler: sudo apt-get install gcc"):
        compiled.built([ONE], tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


def test_without_a_command_it_says_how_it_is_used(
    compiled: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compiled.main([]) == 2
    assert "python scripts/compiled.py -m rosa_sim.chaos" in capsys.readouterr().out
