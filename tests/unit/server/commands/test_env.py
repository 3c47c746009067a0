"""`rosa env`: what it would install, whom it refuses, and the worker's wheel."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from rosa_server.cli import main
from rosa_server.environments.table import ENVIRONMENTS
from rosa_server.environments.wheel import build_wheel
from rosa_server.serving.base.release import release


def test_a_dry_run_says_what_is_installed_and_makes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "env"
    assert main(["env", "worker", "--folder", str(folder), "--with", "my-policy==2", "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert f"rosa_worker-0.1.0+r{release()}-py3-none-any.whl" in said
    for one in (*ENVIRONMENTS["worker"].base, "my-policy==2"):
        assert f"installs {one}" in said
    assert not folder.exists()


def test_an_unknown_environment_is_refused_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["env", "lerobt"]) == 2
    assert "no environment 'lerobt' (did you mean 'lerobot'?); there are worker" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("script", "words"),
    [("echo 3 9 18", "is Python 3.9.18; a worker needs 3.10 or newer"), ("exit 3", "ended with status 3")],
)
def test_an_interpreter_that_will_not_do_is_refused_before_anything_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], script: str, words: str
) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    folder = tmp_path / "env"
    assert main(["env", "worker", "--python", str(python), "--folder", str(folder)]) == 2
    assert words in capsys.readouterr().err
    assert not folder.exists()


def test_every_package_of_every_environment_is_pinned() -> None:
    for one in ENVIRONMENTS.values():
        assert one.what and all("==" in package for package in (*one.base, *one.packages))


def test_the_wheel_is_small_the_same_each_time_and_holds_what_a_worker_is(tmp_path: Path) -> None:
    (tmp_path / "again").mkdir()
    wheel = build_wheel(tmp_path)
    assert wheel.read_bytes() == build_wheel(tmp_path / "again").read_bytes()
    names = zipfile.ZipFile(wheel).namelist()
    assert {"rosa_server/serving/worker/worker.py", "rosa_contract/wire/codec.py"} <= set(names)
    assert "rosa_server/models/adapters/presets/openpi_droid.yaml" in names
    others = ("rosa_server/scheduler", "rosa_server/cluster", "rosa_client", "rosa_sim")
    assert not [name for name in names if name.startswith(others) or name.endswith(".safetensors")]
    assert wheel.stat().st_size < 1e6
