"""`rosa serve > file` on a full disk serves on: its ready line and its logs are lost, and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.system.server_harness import EMULATED, PATIENCE_S, ROOT, robot, serving

FULL = Path("/dev/full")  # every write to it fails as on a full disk


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
def test_a_server_whose_words_cannot_be_written_answers_its_robots(tmp_path: Path) -> None:
    with serving(tmp_path, wait=True, options=EMULATED) as server, FULL.open("w") as full:
        server.process = subprocess.Popen(
            [sys.executable, "-m", "rosa_server.cli", "serve", str(server.config)],
            stdout=full,
            stderr=full,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        with robot(server) as panda:
            panda.join()
            panda.request(1)
            assert panda.answer().status == "ok"
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(PATIENCE_S) == 0
