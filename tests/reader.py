"""Somebody who does what a page says: its files are written and its commands are run, in the order of the page.

A comment above each block of commands says what runs it:

- `<!-- run -->`: the reader types it; `<!-- run: 1 -->`: and it ends with this status.
- `<!-- run by: tests/... -->`, `<!-- run by: make TARGET -->`: that runs the same commands.
- `<!-- not run: REASON -->`: nobody does, and why.

`<!-- file: NAME -->` above any block writes it as a file. What does not end by itself (a server, a dashboard, a robot's
nodes) goes on in the background, and the next command is typed when it is ready. A server ends when a page has another
one, and a demo is waited for where the next one begins and where the page ends, unless a person has to answer it. Only
ports and placeholders are others. Where no `ros2` starts this package, as with the wheels,
`tests/system/examples/ros2.py` does what it would do.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
PATIENCE_S = 60.0
COMMAND_S = 4 * PATIENCE_S
DEMO_S = 15 * PATIENCE_S
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
BLOCK = re.compile(r"^( *)(?:<!-- (\S[^\n]*?) -->\n *)?```(\w*)[^\n]*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
SHELLS = {"sh", "bash", "console", "shell"}
LOOPBACK = {"gpu-box": "127.0.0.1", "0.0.0.0:5570": "127.0.0.1:5570"}
# What does not end by itself, and what it says when the next command may be typed.
ENDLESS = {
    "rosa serve ": "ROSA is ready",
    "rosa dashboard": "http://",
    "rosa view": "Ctrl-C",
    "rosa operator list --watch": "",
    "ros2 launch ": "welcomed by ",
    "ros2 run ": "",
    "ros2 topic echo ": "",
    "python -m rosa_client.bringup": "running ",
    "make demo": "episode ",
    "make demo FAULT=server_killed ARGS=--operator": "ALERT",
}


def blocks(page: Path) -> Iterator[tuple[str, str, str]]:
    """(comment above, language, text) of every block of a page."""
    for _, comment, language, text in BLOCK.findall(page.read_text()):
        yield comment, language, textwrap.dedent(text)


def typed(block: str) -> Iterator[tuple[str, str | None]]:
    """What is typed at once; and for what does not end by itself, what it says when it is ready."""
    if block.startswith("$ "):  # the other lines are what is printed
        block = "".join(f"{line}\n" for line in re.findall(r"^\$ (.*)", block, re.MULTILINE))
    together = ""
    for line in re.findall(r"(?:[^\n]*\\\n)*[^\n]*\n", block):
        begins = [begin for begin in ENDLESS if line.startswith(begin)]
        ready = ENDLESS[max(begins, key=len)] if begins else None
        if ready is None or "--once" in line:
            together += line
            continue
        if together.strip():
            yield together, None
        together = ""
        yield line, ready
    if together.strip():
        yield together, None


class Reader:
    """A folder, which is home too, and a shell in which `rosa` and `python` are found."""

    def __init__(
        self,
        folder: Path,
        port: int,
        names: Mapping[str, str] | None = None,
        *,
        where: Sequence[str] = (),
        **environment: str,
    ) -> None:
        """`port`: instead of the pages' 5570. `names`: what is typed for a page's placeholders. `where`: words before
        each command, as of a network namespace.
        """
        self.folder, self.port = folder, port
        # Nothing is reached from other machines: servers listen on loopback.
        self.names = {**(names or {}), **LOOPBACK, "127.0.0.1:5570": f"127.0.0.1:{port}"}
        self._where = list(where)
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._logs: dict[str, Path] = {}
        programs = folder / "bin"
        programs.mkdir()
        (programs / "rosa").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m rosa_server.cli "$@"\n')
        (programs / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        if not launches():
            stand_in = f'#!/bin/sh\nexec "{sys.executable}" -m tests.system.examples.ros2 "$@"\n'
            (programs / "ros2").write_text(stand_in)
        for program in programs.iterdir():
            program.chmod(0o755)
        (folder / ".venv").symlink_to(sys.prefix)  # to be activated
        self._environment = {
            **ENVIRONMENT,
            "PATH": f"{programs}:{ENVIRONMENT['PATH']}",
            "HOME": str(folder),
            "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache")),
            "XDG_RUNTIME_DIR": str(folder),  # `rosa robots` finds this server only
            "ROS_DOMAIN_ID": os.environ["ROS_DOMAIN_ID"],  # of this file
            "ROS_LOG_DIR": str(folder / "ros"),
            **environment,
        }

    def do(self, page: str) -> str:
        """Every step of a page of docs/; what its commands printed."""
        printed = ""
        for comment, _, block in blocks(ROOT / "docs" / f"{page}.md"):
            what, _, more = comment.partition(": ")
            if what == "file":
                self._write(more, self._meant(block))
            elif what == "run":
                printed += self.type(block, int(more or 0))
        return printed + self.end_of_demo()

    def type(self, block: str, status: int = 0) -> str:
        """A block of commands; what they printed, those in the background until they were ready."""
        printed = ""
        for text, ready in typed(self._meant(block)):
            printed += self._run(text, status) if ready is None else self.start(text, ready)
        return printed

    def _meant(self, block: str) -> str:
        for name, meant in self.names.items():
            block = block.replace(name, meant)
        return block

    def _write(self, name: str, text: str) -> None:
        if "server_cluster" in text:
            text += f'\ngateway: {{bind: "tcp://127.0.0.1:{self.port}", metrics_port: 0}}\n'
        # A slow machine may take longer than a reader's, and what is tested is that there is an answer.
        (self.folder / name).write_text(text.replace("deadline_ms=500", "deadline_ms=30_000"))

    def _run(self, text: str, status: int) -> str:
        ended = subprocess.run(
            [*self._where, "sh", "-e", "-c", text],
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
        )
        assert ended.returncode == status, f"{text}\n{ended.stdout}\n{ended.stderr}\n{self._said()}"
        return ended.stdout + ended.stderr

    def start(self, text: str, ready: str) -> str:
        """In the background; goes on when it says `ready`. What runs already is not started again."""
        text = text.strip()
        if text in self._running and self._running[text].poll() is None:
            return ""
        printed = self.end_of_demo() if text.startswith("make demo") else ""
        if text.startswith("rosa serve"):
            self.end("rosa serve", but="--node ")
        log = self._logs[text] = self.folder / f"{len(self._logs)}.log"
        with log.open("wb") as file:
            process = self._running[text] = subprocess.Popen(
                [*self._where, "sh", "-c", f"exec {text}"],
                cwd=self.folder,
                env=self._environment,
                stdout=file,
                stderr=file,
                start_new_session=True,  # of which Ctrl-C reaches all
            )
        until_s = time.monotonic() + (DEMO_S if text.startswith("make demo") else PATIENCE_S)
        while ready not in log.read_text() and process.poll() != 0:  # `make demo FAULT=list` ends
            assert process.poll() is None and time.monotonic() < until_s, f"{text}\n{self._said()}"
            time.sleep(0.1)
        return printed + log.read_text()

    def _said(self) -> str:
        """The end of what everything in the background has written."""
        return "".join(f"-- {text}\n{log.read_text()[-3000:]}\n" for text, log in self._logs.items())

    def end_of_demo(self) -> str:
        """Wait for demos that nobody has to answer; what they printed since they began."""
        printed = ""
        for text in [text for text in self._running if text.startswith("make demo")]:
            if "--operator" not in text:
                status, said = self._running.pop(text).wait(DEMO_S), self._logs[text].read_text()
                # How many succeed depends on how fast the machine is.
                assert status == 0 or " succeeded;" in said, f"{text}\n{said}"
                printed += said
        return printed

    def end(self, begin: str = "", but: str = "\n") -> None:
        """End what runs and begins so, the newest first; not what has `but` in it."""
        for text in [text for text in reversed(self._running) if text.startswith(begin) and but not in text]:
            process = self._running.pop(text)
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C does
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                raise


def launches() -> bool:
    """Whether an installed ROS 2 starts this package with `ros2 launch`."""
    try:
        from ament_index_python.packages import get_package_prefix

        get_package_prefix("rosa_client")
    except (ImportError, KeyError, OSError):  # no ROS; no such package; nothing is sourced
        return False
    return shutil.which("ros2") is not None
