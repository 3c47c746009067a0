"""A model whose prompts say what goes wrong in its worker."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rosa_server.models.backend import InputSpec, ModelInput, ModelOutput


class FaultyBackend:
    """`nan`, `raise`, `sleep` and `die once` (leaves `mark` behind and does not die when it is there) as prompts.

    `load_fails`: with "config" nothing but another configuration helps; with "memory" a later try may.
    """

    max_batch = 8
    memory_mb = 0.0

    def __init__(self, mark: str, load_fails: str = "") -> None:
        self.input_spec = InputSpec({"front": (8, 8)}, {"joint_position": 7})
        self._mark = Path(mark)
        self._load_fails = load_fails

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
        if one.prompt == "raise":
            raise RuntimeError("out of memory")
        if one.prompt == "sleep":
            time.sleep(1.0)
        if one.prompt == "die" or (one.prompt == "die once" and not self._mark.exists()):
            self._mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        value = np.nan if one.prompt == "nan" else 1.0
        return ModelOutput({"actions": np.full((16, 8), value, np.float32)})
