"""What a process said last about its failure, so that the end of a bring-up names the reason and not only a status."""

from __future__ import annotations

import re

# [FATAL] [1795335192.665432691] [panda0.camera_node]: why
LOGGED = re.compile(r"\[(FATAL|ERROR|WARN|INFO|DEBUG)\] \[[\d.]+\] \[[^\]]*\]: (.*)")
GRAVE = ("FATAL", "ERROR")
MAX_CHARS = 600


class LastWords:
    """The last error that each process logged; of one that logged none, the last line that is not from its log."""

    def __init__(self) -> None:
        self._errors: dict[str, str] = {}
        self._lines: dict[str, str] = {}
        self._goes_on: set[str] = set()  # the error may continue in indented lines

    def hear(self, name: str, line: str) -> None:
        """One line of the output of the process `name`."""
        logged = LOGGED.search(line)
        if logged is not None:
            grave = logged[1] in GRAVE
            if grave:
                self._errors[name] = logged[2].strip()
                self._goes_on.add(name)
            else:
                self._goes_on.discard(name)
            return
        if name in self._goes_on and line[:1].isspace() and len(self._errors[name]) < MAX_CHARS:
            self._errors[name] += f" {line.strip()}"
        else:
            self._goes_on.discard(name)
        if line.strip():
            self._lines[name] = line.strip()

    def of(self, name: str) -> str:
        """The reason that `name` gave, on one line; empty when it said nothing."""
        return (self._errors.get(name) or self._lines.get(name, ""))[:MAX_CHARS]
