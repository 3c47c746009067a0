"""A Python environment of a model's own: the worker's wheel, what a worker needs, and a model that is only there."""

from __future__ import annotations

from pathlib import Path

from rosa_server.environments.wheel import build_wheel
from tests.system.environments import PACKAGES, bare, install, site

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


def with_worker(folder: Path) -> Path:
    """One with a worker, and `theirs`. What a worker needs is linked: it is the same Python."""
    python = bare(folder / "env")
    install(python, build_wheel(folder))
    for name in NEEDED:
        if (PACKAGES / name).exists():
            (site(python) / name).symlink_to(PACKAGES / name)
    (site(python) / "theirs.py").write_text(THEIRS)
    return python
