"""The wheel alone, away from the checkout: its commands find their files, and say what an environment lacks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.system.environments import PACKAGES, bare, install

ROOT = Path(__file__).parents[3]
BASE = ("numpy*", "yaml", "_yaml", "msgpack", "zmq", "pyzmq*", "cv2", "opencv*")  # requirements/base.txt
FACTORY = Path("share", "rosa_client", "configs", "factory.yaml")


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel and nothing else."""
    folder = tmp_path_factory.mktemp("wheel")
    setup = [
        sys.executable,
        "setup.py",
        "-q",
        "egg_info",
        "--egg-base",
        folder,
        "build",
        "--build-base",
        folder,
    ]
    _do([*setup, "bdist_wheel", "--dist-dir", folder], ROOT)
    (wheel,) = folder.glob("*.whl")
    python = bare(folder / "env")
    install(python, wheel)
    return python.parents[1]


def _do(command: list[object], folder: Path) -> None:
    done = subprocess.run(
        [str(word) for word in command], cwd=folder, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr


def rosa(prefix: Path, packages: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`rosa` of the wheel, with what lies in `packages` beside it."""
    return subprocess.run(
        [prefix / "bin" / "rosa", *words],
        cwd=prefix,
        env={"PYTHONPATH": str(packages)},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_with_every_package_it_plans_and_simulates_with_what_it_ships(prefix: Path) -> None:
    planned = rosa(prefix, PACKAGES, "plan", str(FACTORY))
    assert planned.returncode == 0, planned.stderr
    assert "actions/s" in planned.stdout
    scenarios = rosa(prefix, PACKAGES, "bench", "fleet", "no_such_scenario")
    assert scenarios.returncode == 2 and "p4" in scenarios.stderr, scenarios.stderr


def test_with_the_robots_packages_alone_it_checks_and_says_what_the_server_needs(
    prefix: Path, tmp_path: Path
) -> None:
    for pattern in BASE:
        for package in PACKAGES.glob(pattern):
            (tmp_path / package.name).symlink_to(package)
    assert rosa(prefix, tmp_path, "check", str(FACTORY)).returncode == 0
    assert rosa(prefix, tmp_path, "--version").stdout.startswith("rosa ")
    for words in (["plan", str(FACTORY)], ["serve", str(FACTORY.parent / "pick_place.yaml")]):
        refused = rosa(prefix, tmp_path, *words)
        assert refused.returncode == 2
        assert "pip install 'rosa_client[server]' brings what it needs" in refused.stderr
        assert "Traceback" not in refused.stderr
