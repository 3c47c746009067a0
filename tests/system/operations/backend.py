"""A model whose weights are one number in a file, which is what it answers; `never`: they do not finish loading;
below 0: every call fails. `gate`: a file; while there is none, nothing is loaded."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rosa_server.models.backend import InputSpec, ModelInput, ModelOutput


class NumberBackend:
    def __init__(self, weights: str, gate: str = "", blind: bool = False) -> None:
        """`blind`: it needs no pictures."""
        self.input_spec = InputSpec({} if blind else {"front": (8, 8)}, {"joint_position": 7})
        self._gate = gate
        self.max_batch = 4
        self._weights = weights
        self._number = 0.0

    def load(self) -> None:
        text = Path(self._weights).read_text()
        while self._gate and not Path(self._gate).exists():
            time.sleep(0.02)
        if text == "never":
            time.sleep(3600)
        self._number = float(text)

    def warm_up(self) -> None:
        """Nothing gets faster."""

    def infer(self, batch: Sequence[ModelInput]) -> list[ModelOutput]:
        time.sleep(0.02)
        if self._number < 0:
            raise RuntimeError("these weights are no good")
        return [ModelOutput({"actions": np.full((4, 8), self._number, np.float32)}) for _ in batch]

    def close(self) -> None:
        """Nothing is open."""
