"""Empty Python environments for tests: the same Python, and what it needs is linked or installed from a wheel."""

from __future__ import annotations

import subprocess
import sys
import venv
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import numpy as np
from packaging.requirements import Requirement

PATIENCE_S = 600.0  # these tests have the lowest priority, and get next to nothing while servers are tested
PACKAGES = Path(np.__file__).parents[1]  # where this Python has its packages


def bare(folder: Path) -> Path:
    """An environment with nothing in it; returns its interpreter."""
    venv.create(folder, symlinks=True)
    return folder / "bin" / "python"


def site(python: Path) -> Path:
    (found,) = python.parents[1].glob("lib/python3*/site-packages")
    return found


def install(python: Path, wheel: Path) -> None:
    """Without what the wheel depends on."""
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--no-deps", "--no-index"]
    done = subprocess.run([*pip, str(wheel)], capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr


def link_declared(folder: Path, requirements: Iterable[str]) -> None:
    """Link what these need, and what that needs in turn, from where this Python has it; extras are left out.

    Packages of ours are passed over: they are what is tested.
    """
    waiting, seen = list(requirements), set()
    while waiting:
        wanted = Requirement(waiting.pop())
        if wanted.name in seen or wanted.name.startswith("rosa-"):
            continue
        if wanted.marker is not None and not wanted.marker.evaluate({"extra": ""}):
            continue
        seen.add(wanted.name)
        try:
            found = distribution(wanted.name)
        except PackageNotFoundError as error:
            raise AssertionError(f"{wanted.name} is declared, and not installed here") from error
        waiting += found.requires or ()
        for top in {file.parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
            link = folder / top
            if not link.exists():
                link.symlink_to(PACKAGES / top)
