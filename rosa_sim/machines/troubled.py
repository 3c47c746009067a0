"""The emulated model with weights that can be rolled out, and with trouble that a file hands out: `PID raises` and `PID
slow SECONDS`, one line per worker.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from rosa_server.models.backend import ModelInput, ModelOutput
from rosa_server.models.emulated import EmulatedBackend


class TroubledBackend(EmulatedBackend):
    """`weights`: a file that has to be there, and that says nothing. `trouble`: the file of trouble, or nothing."""

    def __init__(self, weights: str, trouble: str = "", **options: Any) -> None:
        super().__init__(**options)
        self._weights, self._trouble = Path(weights), trouble

    def load(self) -> None:
        self._weights.read_text()
        super().load()

    def infer(self, batch: Sequence[ModelInput]) -> list[ModelOutput]:
        what, _, seconds = self._mine().partition(" ")
        if what == "raises":
            raise RuntimeError("the GPU is gone")
        if what == "slow":
            time.sleep(float(seconds))
        return super().infer(batch)

    def _mine(self) -> str:
        if self._trouble:
            with suppress(OSError):
                for line in Path(self._trouble).read_text().splitlines():
                    pid, _, what = line.partition(" ")
                    if pid == str(os.getpid()):
                        return what
        return ""
