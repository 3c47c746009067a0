"""A Python environment of a model's own: the worker's wheel, what a worker needs, and a model that is only there."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import venv
from pathlib import Path

from rosa_server.environments.wheel import build_wheel

PACKAGES = Path(str(importlib.util.find_spec("numpy").origin)).parents[1]  # type: ignore[union-attr]
NEEDED = ("numpy", "numpy.libs", "msgpack", "zmq", "pyzmq.libs", "cv2", "opencv_python_headless.libs")
THEIRS = '''
"""A model that nobody else can import."""
import os
import sys

import numpy as np

from rosa_server.models.backend import InputSpec, ModelOutput


class Theirs:
    def __init__(self, fails=False):
        self.input_spec = InputSpec({"image": (16, 16)}, {"state": 3})
        self.max_batch, self.memory_mb, self.fails = 4, 0.0, fails

    def load(self):
        if self.fails:
            raise FileNotFoundError("weights no/such/file are missing")

    def warm_up(self):
        pass

    def infer(self, batch):
        told = [sys.prefix, os.environ.get("PYTHONPATH", ""), *sorted(sys.modules)]
        return [ModelOutput({"actions": np.tile(one.state["state"], (2, 1))}, text=" ".join(told)) for one in batch]

    def close(self):
        pass
'''


def bare(folder: Path) -> Path:
    """An environment with nothing in it; returns its interpreter."""
    venv.create(folder, symlinks=True)
    return folder / "bin" / "python"


def site(python: Path) -> Path:
    (found,) = python.parents[1].glob("lib/python3*/site-packages")
    return found


def with_worker(folder: Path) -> Path:
    """One with a worker, and `theirs`. What a worker needs is linked: it is the same Python."""
    python = bare(folder / "env")
    wheel = build_wheel(folder)
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--no-deps", "--no-index"]
    done = subprocess.run([*pip, str(wheel)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    for name in NEEDED:
        if (PACKAGES / name).exists():
            (site(python) / name).symlink_to(PACKAGES / name)
    (site(python) / "theirs.py").write_text(THEIRS)
    return python
