"""Empty Python environments for tests: the same Python, and what it needs is linked or installed from a wheel."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

import numpy as np

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
    done = subprocess.run([*pip, str(wheel)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
