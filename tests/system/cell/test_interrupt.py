"""Ctrl-C at any moment of a run leaves no process, and no shared memory, behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import psutil
import pytest

from rosa_client.bringup.supervisor import shared_memory
from tests.system.cell.cell import ROOT, shipped

pytestmark = pytest.mark.slow
PATIENCE_S = 90.0
MARK = "ROSA_TEST_MARK"


def marked(mark: str) -> list[psutil.Process]:
    """Every process that descends from the run, whatever became of its parents."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


@pytest.mark.parametrize(
    "moment", ["at once", "while nodes start", "in mid-episode", "while the video renders"]
)
def test_ctrl_c_leaves_nothing_behind(moment: str, tmp_path: Path) -> None:
    config, _ = shipped(tmp_path)
    before = shared_memory()
    mark = uuid.uuid4().hex
    command = [sys.executable, "-m", "rosa_sim.demo", "--episodes", "1"]
    # The video comes after the episode, which may be a short one.
    command += ["--timeout", "5"] if moment == "while the video renders" else ["--no-video"]
    command += ["--config", str(config), "--out", str(tmp_path / "runs")]
    environment = {**os.environ, MARK: mark}
    run = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        _wait_for(moment, run, mark, tmp_path)
        run.send_signal(signal.SIGINT)
        output, _ = run.communicate(timeout=PATIENCE_S)
    finally:
        for process in marked(mark) if run.poll() is None else []:
            process.kill()
    assert run.returncode == 130, output
    assert "Traceback" not in output, output
    assert not marked(mark), [process.cmdline() for process in marked(mark)]
    left = shared_memory() - before
    assert not left
    assert not list(tmp_path.glob("runs/*/video.mp4")), "half a video cannot be played"


def _wait_for(moment: str, run: subprocess.Popen[str], mark: str, folder: Path) -> None:
    """Return when the run has come as far as `moment` says."""
    until_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < until_s:
        assert run.poll() is None, f"the run ended by itself: {run.communicate()[0]}"
        logs = list(folder.glob("runs/*/logs"))
        log = next(folder.glob("runs/*/logs/panda0_runtime_node.log"), None)
        reached = {
            "at once": bool(logs),
            "while nodes start": len(marked(mark)) >= 4,
            "while the video renders": bool(list(folder.glob("runs/*/video.mp4"))),
            "in mid-episode": log is not None and "task_started" in log.read_text(),
        }
        if reached[moment]:
            return
        time.sleep(0.1)
    raise AssertionError(f"the run did not come as far as {moment!r}")
