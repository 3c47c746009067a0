"""The tutorials do what they say: their files are written and their commands are run, in the order of the page.

Above a block, `<!-- file: NAME -->` writes it, `<!-- run -->` runs it, and `<!-- background -->` starts it and waits
until the server is ready. Only the ports are others: several tests run at a time.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rosa_sim.ports import free_port
from tests.system.examples.test_examples import ENVIRONMENT, PATIENCE_S, ROOT

TUTORIALS = ROOT / "docs" / "tutorials"
STEP = re.compile(r"<!-- (file: \S+|run|background) -->\n```\w+\n(.*?)```", re.DOTALL)
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
        for program in programs.iterdir():
            program.chmod(0o755)
        self._environment = {
            **ENVIRONMENT,
            "PATH": f"{programs}:{ENVIRONMENT['PATH']}",
            "XDG_RUNTIME_DIR": str(folder),  # `rosa robots` finds this server only
        }

    def do(self, name: str) -> str:
        """Every step of a tutorial; what its commands printed."""
        printed = ""
        for what, block in steps(name):
            if what.startswith("file: "):
                self._write(what.removeprefix("file: "), block)
            elif what == "run":
                printed += self._run(block)
            else:
                self._serve(block)
        return printed

    def _write(self, name: str, text: str) -> None:
        if "server_cluster" in text:
            text += f'\ngateway: {{bind: "tcp://127.0.0.1:{self.port}", metrics_port: 0}}\n'
        (self.folder / name).write_text(text.replace("127.0.0.1:5570", f"127.0.0.1:{self.port}"))

    def _run(self, block: str) -> str:
        ended = subprocess.run(
            ["sh", "-e", "-c", block],
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=4 * PATIENCE_S,
        )
        assert ended.returncode == 0, f"{block}\n{ended.stdout}\n{ended.stderr}"
        return ended.stdout

    def _serve(self, block: str) -> None:
        log = self.folder / "server.log"
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
        while READY not in log.read_text():
            assert server.poll() is None and time.monotonic() < until_s, log.read_text()
            time.sleep(0.1)

    def close(self) -> None:
        for server in self._servers:
            server.terminate()
        for server in self._servers:
            server.wait(PATIENCE_S)


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
    assert "16 actions of 8 values in " in printed


def test_keys_for_two_machines_are_made(reader: Reader) -> None:
    reader.do("two_machines")
    named = {path.name for path in (reader.folder / "keys").rglob("*") if path.is_file()}
    assert {robot for robot in ("panda0", "panda1") if any(robot in name for name in named)} == {
        "panda0",
        "panda1",
    }
