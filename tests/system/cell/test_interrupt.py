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

from rosa_client.bringup.supervisor import SHM, shared_memory
from tests.system.cell.cell import ROOT, shipped
from tests.system.memory import OWN_MEMORY

pytestmark = pytest.mark.slow
PATIENCE_S = 180.0  # hard limit of every wait; other tests run beside it
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


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    """The folder for a run's shared memory; that of the machine where it cannot have its own."""
    folder = tmp_path / "shm"
    folder.mkdir()
    tried = subprocess.run([*OWN_MEMORY, str(folder), "true"], capture_output=True, timeout=PATIENCE_S)
    return SHM if tried.returncode else folder


def remembered(memory: Path) -> set[str]:
    """What is in it. LTTng, which the ROS wheels load, keeps two files for all processes that it will ever trace."""
    if memory == SHM:
        return shared_memory()
    return {path.name for path in memory.iterdir() if not path.name.startswith("lttng-ust-wait-")}


@pytest.mark.parametrize(
    "moment", ["at once", "while nodes start", "in mid-episode", "while the video renders"]
)
def test_ctrl_c_leaves_nothing_behind(moment: str, memory: Path, tmp_path: Path) -> None:
    config, _ = shipped(tmp_path)
    before = remembered(memory)
    mark = uuid.uuid4().hex
    command = [] if memory == SHM else [*OWN_MEMORY, str(memory)]
    command += [sys.executable, "-m", "rosa_sim.demo", "--episodes", "1"]
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
    assert not remembered(memory) - before
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
