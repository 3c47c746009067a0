"""One attempt, and the checkout whose commands it runs."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

Happened = tuple[str, bool]  # in words, and whether it is as promised

ROSA = "rosa_server.cli"
LONGEST = 120  # characters of a line that the table shows
END_S = 60.0  # a program that is told to end has ended by then


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    status: int | None  # None: it was still running, and was ended from outside
    said: str  # standard output and error
    seconds: float

    @property
    def traceback(self) -> bool:
        return "Traceback" in self.said

    def line(self, words: str = "") -> str:
        """The first line with these words, else the last one."""
        lines = [line.strip() for line in self.said.splitlines() if line.strip()] or ["nothing"]
        found = next((line for line in lines if words and words in line), lines[-1])
        return found if len(found) <= LONGEST else found[:LONGEST] + "..."

    def words(self, expected: str = "") -> str:
        """For the table."""
        if self.status is None:
            tracebacks = self.said.count("Traceback")
            return f"still runs after {self.seconds:.0f} s" + (
                f"; {tracebacks} tracebacks" if tracebacks else ""
            )
        how = f"exit {self.status}"
        return f"{how}, a traceback: {self.line()}" if self.traceback else f"{how}: {self.line(expected)}"


@dataclass(frozen=True)
class Checkout:
    """A checkout with its virtual environment."""

    folder: Path

    def command(self, module: str, *words: str) -> list[str]:
        return [str(self.folder / ".venv" / "bin" / "python"), "-m", module, *words]

    def environment(self, domain: int = 0) -> dict[str, str]:
        """`domain`: of ROS, so that nobody else's robots are met; 0: as here."""
        made = {**os.environ, "PYTHONPATH": str(self.folder), "PYTHONUNBUFFERED": "1"}
        made["PATH"] = f"{self.folder / '.venv' / 'bin'}:{made['PATH']}"
        return made | ({"ROS_DOMAIN_ID": str(domain)} if domain else {})

    def plain(self, said: str, folder: Path) -> str:
        """Without the places of this machine."""
        return said.replace(f"{folder}/", "").replace(str(folder), "").replace(f"{self.folder}/", "")

    @contextlib.contextmanager
    def running(self, words: list[str], log: Path, domain: int = 0) -> Iterator[subprocess.Popen[bytes]]:
        """A program in the background, all of whose processes are ended on leaving."""
        with log.open("wb") as out:
            process = subprocess.Popen(
                words,
                cwd=self.folder,
                env=self.environment(domain),
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            end(process)

    def run(
        self, words: list[str], folder: Path, limit_s: float = 60.0, interrupt_s: float = 0.0, domain: int = 0
    ) -> Ran:
        """Run it; after `limit_s` it is ended. `interrupt_s`: when Ctrl-C is pressed; 0: never."""
        log, began_s = folder / "said.log", time.monotonic()
        with self.running(words, log, domain) as process:
            if interrupt_s:
                time.sleep(interrupt_s)
                process.send_signal(signal.SIGINT)
            status: int | None = None
            with contextlib.suppress(subprocess.TimeoutExpired):
                status = process.wait(limit_s)
            seconds = time.monotonic() - began_s
        return Ran(status, self.plain(log.read_text(errors="replace"), folder), seconds)


def end(process: subprocess.Popen[bytes]) -> None:
    """Ctrl-C, and what is left of its processes after a while is killed."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(END_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@dataclass(frozen=True)
class Attempt:
    """Something that was found to do harm, and what is promised now."""

    finding: int
    tried: str
    promised: str
    run: Callable[[Checkout], Happened]


def until(condition: Callable[[], object], within_s: float) -> bool:
    """Wait for it; whether it came."""
    end_s = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > end_s:
            return False
        time.sleep(0.1)
    return True
