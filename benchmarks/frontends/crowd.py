"""Processes of a benchmark: clients that obey lines of JSON, and servers."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from benchmarks import ROOT
from benchmarks.processes import END_WITHIN_S, end

ANSWER_WITHIN_S = 120.0
START_DELAY_S = 0.2


def started(command: Sequence[str], more: Mapping[str, str], **options: Any) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **more}
    return subprocess.Popen(command, env=environment, cwd=ROOT, text=True, **options)


@contextmanager
def serving(
    command: Sequence[str], addresses: Sequence[str], more: Mapping[str, str] | None = None
) -> Iterator[None]:
    """A server that listens on all `addresses`, and is gone afterwards. `more`: of the environment."""
    process = started(command, more or {}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until_s = time.monotonic() + ANSWER_WITHIN_S
        for address in addresses:
            while not _listens(address):
                if process.poll() is not None or time.monotonic() > until_s:
                    raise RuntimeError(f"{' '.join(command)} does not listen on {address}")
                time.sleep(0.1)
        yield
    finally:
        end(process)


def _listens(address: str) -> bool:
    where = urlsplit(address)
    try:
        socket.create_connection((where.hostname or "", where.port or 0), timeout=1.0).close()
    except OSError:
        return False
    return True


class Crowd:
    """Client processes of one Python environment."""

    def __init__(self, python: str, count: int) -> None:
        command = [python, "-m", "benchmarks.frontends.peers.client"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self._processes = [started(command, {}, **pipes) for _ in range(count)]
        self._pool = ThreadPoolExecutor(count)

    def measure(self, module: str, address: str, count: int, seconds: float) -> list[dict[str, Any]]:
        """What each of `count` clients measured, in a closed loop of `seconds`, all at the same time."""
        chosen = self._processes[:count]
        self._tell(chosen, {"module": module, "address": address})
        self._answers(chosen)
        self._tell(chosen, {"start_s": time.monotonic() + START_DELAY_S, "seconds": seconds})
        return self._answers(chosen)

    def close(self) -> None:
        for process in self._processes:
            end(process)
        self._pool.shutdown()

    @staticmethod
    def _tell(chosen: Sequence[subprocess.Popen[str]], what: Mapping[str, Any]) -> None:
        for process in chosen:
            assert process.stdin is not None
            process.stdin.write(json.dumps(what) + "\n")
            process.stdin.flush()

    def _answers(self, chosen: Sequence[subprocess.Popen[str]]) -> list[Any]:
        lines = [self._pool.submit(self._line, process) for process in chosen]
        return [json.loads(line.result(ANSWER_WITHIN_S)) for line in lines]

    @staticmethod
    def _line(process: subprocess.Popen[str]) -> str:
        assert process.stdout is not None
        if not (line := process.stdout.readline()):
            raise RuntimeError(f"a client ended: {process.wait(END_WITHIN_S)}")
        return line
