"""A disk that is soon full: a small file system in memory."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def small_disk(folder: Path, kilobytes: int) -> Iterator[str]:
    """Mount it on `folder`; gives why this machine does not, or an empty string."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10)
        why = done.stderr.strip() if done.returncode else ""
    except OSError as error:
        why = str(error)
    try:
        yield why
    finally:
        if not why:
            subprocess.run(["umount", "-l", str(folder)], capture_output=True, timeout=10)
