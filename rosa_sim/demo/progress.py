"""What a run says on the terminal while it goes on."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from rosa_contract.say import say


class DemoProgress:
    """Lines that stay and one status line that is overwritten; without a terminal, only lines that stay."""

    def __init__(self) -> None:
        self._live = sys.stdout.isatty()
        self._last = ""

    def line(self, text: str) -> None:
        self._clear()
        say(text)

    def status(self, text: str) -> None:
        if text.endswith("\n"):
            self.line(text.rstrip())
        elif self._live and text != self._last:
            self._clear()
            width = shutil.get_terminal_size().columns - 1
            say(text[:width], end="")
            self._last = text

    def _clear(self) -> None:
        if self._last:
            say("\r" + " " * len(self._last) + "\r", end="")
            self._last = ""


def shown(path: Path) -> str:
    """Relative to the current folder, when it is inside."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
