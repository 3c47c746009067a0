"""A robot that asks while people work on its server, and the commands that they give."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rosa_contract.wire import messages as m
from tests.system.server_harness import PATIENCE_S, ROOT, Robot


class Asking:
    """A robot that asks without a pause, and remembers every answer."""

    def __init__(self, one: Robot, **asks: Any) -> None:
        self.answers: list[m.Response] = []
        self.failed: BaseException | None = None
        self._robot, self._asks, self._stop = one, asks, threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        try:
            while not self._stop.is_set():
                number += 1
                self._robot.request(number, **self._asks)
                self.answers.append(self._robot.answer())
        except BaseException as error:
            self.failed = error

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(PATIENCE_S)
        assert self.failed is None, self.failed


@contextmanager
def asking(one: Robot, **asks: Any) -> Iterator[Asking]:
    """`asks`: fields of each request."""
    made = Asking(one, **asks)
    try:
        yield made
    finally:
        made.stop()


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def rosa(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rosa_server.cli", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=2 * PATIENCE_S, env=environment())
