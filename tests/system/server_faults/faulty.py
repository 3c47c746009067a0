"""Models that go wrong in their worker: one whose prompts say how, and one that is no model at all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rosa_server.models.backend import InputSpec, ModelInput, ModelOutput


class NoBackend:
    """Somebody's class that has no `infer`."""

    def load(self) -> None: ...


class UnprintableError(RuntimeError):
    """What raises once more when it is shown."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


class FaultyBackend:
    """`nan`, `raise`, `hold`, `exit 78`, `child`, `noise`, ... and `die once` as prompts; after `break` all fail.

    `die once` leaves `mark` behind and does not die when it is there. `hold` leaves it behind and is answered when it
    is gone; `hold once` is not answered, unless it was there. `load_fails`: with "config" nothing but another
    configuration helps; with "memory" a later try may.
    """

    max_batch = 8
    memory_mb = 0.0

    def __init__(self, mark: str, load_fails: str = "") -> None:
        self.input_spec = InputSpec({"front": (8, 8)}, {"joint_position": 7})
        self._mark = Path(mark)
        self._load_fails = load_fails
        self._broken = False

    def load(self) -> None:
        if self._load_fails == "config":
            raise FileNotFoundError("weights nowhere.safetensors are missing")
        if self._load_fails == "memory":
            raise RuntimeError("out of memory on this GPU")

    def warm_up(self) -> None: ...

    def close(self) -> None: ...

    def infer(self, batch: Sequence[ModelInput]) -> list[ModelOutput]:
        return [self._one(one) for one in batch]

    def _one(self, one: ModelInput) -> ModelOutput:
        self._broken |= one.prompt == "break"
        if self._broken:
            raise RuntimeError("device-side assert triggered")
        if one.prompt == "raise":
            raise RuntimeError("out of memory")
        if one.prompt == "unprintable":
            raise UnprintableError
        if one.prompt == "surrogate":
            raise RuntimeError("a name that is no text: \udcff")
        if one.prompt.startswith("exit "):
            sys.exit(int(one.prompt.removeprefix("exit ")))
        if one.prompt == "child":
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
            self._mark.write_text(str(child.pid))
        if one.prompt == "noise":
            for stream in (1, 2):
                os.write(stream, b"a library has something to say\n" * 20_000)
        if one.prompt == "hold" or (one.prompt == "hold once" and not self._mark.exists()):
            self._mark.touch()
            while self._mark.exists():
                time.sleep(0.005)
        if one.prompt == "die" or (one.prompt == "die once" and not self._mark.exists()):
            self._mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        value = np.nan if one.prompt == "nan" else 1.0
        return ModelOutput({"actions": np.full((16, 8), value, np.float32)})
