"""Meta-World's scripted experts as a model: the same function in process, and as a backend of ROSA."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from metaworld.policies import ENV_POLICY_MAP

from rosa_server.models.backend import Capabilities, InputSpec, ModelInput, ModelOutput, check_batch

STATE = 39  # values of Meta-World's observation
BASE_MS, PER_ITEM_MS = 57.0, 3.0  # of a batch; the experts themselves take no time, a model would


@cache
def expert(task: str) -> Any:
    return ENV_POLICY_MAP[task]()


def act(task: str, state: Any) -> Any:
    """The action (4,) float32 for an observation (39,)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the experts say that they are clipped
        action = expert(task).get_action(np.asarray(state, np.float32).astype(np.float64))
    return np.clip(action, -1, 1).astype(np.float32)


def takes(count: int) -> None:
    """As long as a batch of so many."""
    time.sleep((BASE_MS + PER_ITEM_MS * count) / 1000)


class ExpertBackend:
    """The prompt names the task."""

    def __init__(self) -> None:
        self.input_spec = InputSpec({}, {"state": STATE})
        self.capabilities = Capabilities()
        self.max_batch, self.memory_mb = 16, 0.0

    def load(self) -> None:
        expert("reach-v3")

    def warm_up(self) -> None:
        """Nothing to do."""

    def infer(self, batch: Sequence[ModelInput]) -> list[ModelOutput]:
        check_batch(self.input_spec, batch, self.max_batch)
        takes(len(batch))
        return [ModelOutput({"actions": act(one.prompt, one.state["state"])[None]}) for one in batch]

    def close(self) -> None:
        """Nothing to do."""
