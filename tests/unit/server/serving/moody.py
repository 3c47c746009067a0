"""The model of the workers' tests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rosa_contract.wire import messages as m
from rosa_server.models.backend import InputSpec, ModelInput, ModelOutput
from tests.unit.server.serving.core.stage import IMAGES, STATE


class Moody:
    """A model whose prompt says what goes wrong."""

    input_spec = InputSpec(IMAGES, STATE)
    max_batch = 4
    memory_mb = 0.0

    def load(self) -> None: ...

    def warm_up(self) -> None: ...

    def close(self) -> None: ...

    def infer(self, batch: Sequence[ModelInput]) -> list[ModelOutput]:
        if any(one.prompt == "raise" for one in batch):
            raise RuntimeError("out of memory")
        if any(one.prompt == "misfit" for one in batch):
            raise ValueError("state is out of range")
        if any(one.prompt == "too few" for one in batch):
            return []
        actions = {True: np.full((2, 2), np.nan, np.float32), False: np.ones((2, 2), np.float32)}
        updates = np.array([[[1.0], [1.0]], [[0.5], [2.0]]])
        timed = {"step_s": np.array([0.05], np.float32)}
        return [
            ModelOutput(
                {"actions": actions[one.prompt == "nan"], **(timed if one.prompt == "timed" else {})},
                updates=updates,
            )
            for one in batch
        ]


def causes(done: m.Executed) -> list[str]:
    return [cause or "ok" for cause, _ in done.errors]
