"""`rosa env` with other Pythons, as a user has them, and a model in each: `make test-env`, about half a minute each."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from rosa_contract.config.models import Model
from rosa_server.cli import main
from rosa_server.models.backend import ModelInput
from rosa_server.serving.worker.elsewhere import backend_of

VERSIONS = ("3.10", "3.11", "3.12", "3.13")


def interpreter(version: str) -> str | None:
    """Of this version: on the PATH, or of pyenv."""
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    found = sorted(root.glob(f"versions/{version}.*/bin/python"))
    return str(found[-1]) if found else shutil.which(f"python{version}")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_worker_answers_in_another_python(version: str, tmp_path: Path) -> None:
    python = interpreter(version)
    if python is None:
        pytest.skip(f"no Python {version} here")
    folder = tmp_path / "env"
    assert main(["env", "worker", "--python", python, "--folder", str(folder)]) == 0
    own = folder / "bin" / "python"
    options = {"images": {"front": [8, 8]}, "state": {"joint_position": 2}, "horizon": 3, "dof": 2}
    backend = backend_of("emulated", Model("emulated", options, python=str(own)))
    backend.load()
    try:
        asked = ModelInput(
            "system1",
            images={"front": np.zeros((8, 8, 3), np.uint8)},
            state={"joint_position": np.array([1, 2], np.float32)},
        )
        [answer] = backend.infer([asked])
        assert answer.arrays["actions"].tolist() == [[1, 2]] * 3
    finally:
        backend.close()
    listed = (folder / "rosa-env.txt").read_text()
    assert "pyzmq==" in listed and "rosa_worker" in listed.replace("-", "_")
