"""The tutorials do what they say: their files are written and their commands are run, in the order of the page.

Above a block, `<!-- file: NAME -->` writes it, `<!-- run -->` runs it (`<!-- run: 1 -->`: it ends with this status),
`<!-- background -->` starts it and waits until the server is ready, and `<!-- background: robot -->` starts it and goes
on. Only the ports are others: several tests run at a time. Where no `ros2` starts this package, as with the wheels,
`ros2.py` does what it would do with the launch file.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rosa_sim.ports import free_port
from tests.system.examples.test_examples import ENVIRONMENT, PATIENCE_S, ROOT

TUTORIALS = ROOT / "docs" / "tutorials"
STEP = re.compile(
    r"<!-- (file: \S+|run|run: \d|background|background: robot) -->\n```\w+\n(.*?)```", re.DOTALL
)
READY = "ROSA is ready"


def steps(name: str) -> list[tuple[str, str]]:
    """(what to do, the block) of a tutorial."""
    return STEP.findall((TUTORIALS / f"{name}.md").read_text())


class Reader:
    """Somebody who does a tutorial: a folder, and a shell in which `rosa` and `python` are found."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self._servers: list[subprocess.Popen[bytes]] = []
        programs = folder / "bin"
        programs.mkdir()
        (programs / "rosa").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m rosa_server.cli "$@"\n')
        (programs / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        if not launches():
            stand_in = f'#!/bin/sh\nexec "{sys.executable}" -m tests.system.examples.ros2 "$@"\n'
            (programs / "ros2").write_text(stand_in)
        for program in programs.iterdir():
            program.chmod(0o755)
        self._environment = {
            **ENVIRONMENT,
            "PATH": f"{programs}:{ENVIRONMENT['PATH']}",
            "XDG_RUNTIME_DIR": str(folder),  # `rosa robots` finds this server only
            "ROS_DOMAIN_ID": os.environ["ROS_DOMAIN_ID"],  # of this file
            "ROS_LOG_DIR": str(folder / "ros"),
        }

    def do(self, name: str) -> str:
        """Every step of a tutorial; what its commands printed."""
        printed = ""
        for step, found in steps(name):
            what, _, more = step.partition(": ")
            block = found.replace("127.0.0.1:5570", f"127.0.0.1:{self.port}")
            if what == "file":
                self._write(more, block)
            elif what == "run":
                printed += self._run(block, int(more or 0))
            else:
                self._start(block, "" if more else READY)
        return printed

    def _write(self, name: str, text: str) -> None:
        if "server_cluster" in text:
            text += f'\ngateway: {{bind: "tcp://127.0.0.1:{self.port}", metrics_port: 0}}\n'
        # A slow machine may take longer than a reader's, and what is tested is that there is an answer.
        (self.folder / name).write_text(text.replace("deadline_ms=500", "deadline_ms=30_000"))

    def _run(self, block: str, status: int) -> str:
        ended = subprocess.run(
            ["sh", "-e", "-c", block],
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=4 * PATIENCE_S,
        )
        logs = "".join(path.read_text()[-3000:] for path in self.folder.glob("*.log"))
        assert ended.returncode == status, f"{block}\n{ended.stdout}\n{ended.stderr}\n{logs}"
        return ended.stdout

    def _start(self, block: str, ready: str) -> None:
        """In the background; goes on when it says `ready`."""
        log = self.folder / f"{len(self._servers)}.log"
        with log.open("wb") as file:
            server = subprocess.Popen(
                ["sh", "-c", f"exec {block.strip()}"],
                cwd=self.folder,
                env=self._environment,
                stdout=file,
                stderr=file,
            )
        self._servers.append(server)
        until_s = time.monotonic() + PATIENCE_S
        while ready not in log.read_text():
            assert server.poll() is None and time.monotonic() < until_s, log.read_text()
            time.sleep(0.1)

    def close(self) -> None:
        for server in self._servers:
            server.send_signal(signal.SIGINT)  # as Ctrl-C does
        for server in self._servers:
            try:
                server.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                server.kill()
                raise


def launches() -> bool:
    """Whether an installed ROS 2 starts this package with `ros2 launch`."""
    try:
        from ament_index_python.packages import get_package_prefix

        get_package_prefix("rosa_client")
    except (ImportError, KeyError, OSError):  # no ROS; no such package; nothing is sourced
        return False
    return shutil.which("ros2") is not None


@pytest.fixture
def reader() -> Iterator[Reader]:
    # A Unix socket's path has at most 107 bytes, which pytest's own folders may exceed.
    folder = Path(subprocess.check_output(["mktemp", "-d"], text=True).strip())
    one = Reader(folder)
    yield one
    one.close()
    shutil.rmtree(folder)


def test_a_model_of_ones_own_is_served_and_asked(reader: Reader) -> None:
    printed = reader.do("own_model")
    assert "my_cell.yaml: a valid factory file" in printed
    assert re.findall(r"actions \((\d+), (\d+)\) in", printed) == [("16", "7")] * 5
    # and the robot of the next tutorial fits the same model
    printed = reader.do("own_robot")
    assert "my_robot.yaml: a valid robot file" in printed
    assert "my_arm fits wave" in printed
    assert len(list((reader.folder / "pictures" / "front").glob("*.jpg"))) > 1
    # and both get keys, for a machine each
    printed = reader.do("two_machines")
    assert "my_cell.yaml: a valid factory file" in printed
    named = {path.name for path in (reader.folder / "keys").rglob("*") if path.is_file()}
    robots = {"my_arm", "other_arm"}
    assert {robot for robot in robots if any(robot in name for name in named)} == robots


def test_a_factory_of_ones_own_is_planned(reader: Reader) -> None:
    printed = reader.do("own_factory")
    assert printed.count("What limits the rates") >= 3
    assert "6 robots on 2 x NVIDIA H200" in printed
    assert "30 robots on 2 x NVIDIA H200" in printed


def test_a_checkpoint_becomes_a_factory_in_five_commands(reader: Reader) -> None:
    printed = reader.do("checkpoint_to_factory")
    assert "camera front: 640x480 px" in printed and "made   actions: float32 (16, 8)" in printed
    assert "lab--policy.yaml: derived" in printed
    assert "4 robots on 1 x NVIDIA RTX 4090" in printed
    assert "All profiles are derived for NVIDIA RTX 4090, not measured on it" in printed
    assert re.search(r"round [1-9]\d*, executing; system1 \d+ of 5000 ms", printed) and "timed_out" in printed
    assert "16 actions of 8 values in " in printed
