"""Processes that do not outlive what a benchmark uses them for."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import AnyStr

END_WITHIN_S = 20.0


def end(process: subprocess.Popen[AnyStr]) -> None:
    """Ask it to end, and kill it when it has not after a while."""
    process.terminate()
    try:
        process.wait(END_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def ended(process: subprocess.Popen[AnyStr]) -> Iterator[subprocess.Popen[AnyStr]]:
    """End it on leaving."""
    try:
        yield process
    finally:
        end(process)
