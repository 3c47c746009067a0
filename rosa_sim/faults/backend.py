"""A real model whose answers are spoiled while a switch says so: slow, NaN, of a wrong shape, out of range.

models:
  rosa/panda-flow-policy:
    backend: rosa_sim.faults.backend:FaultyBackend
    options: {inner: flow_policy, options: {}, control: /tmp/policy.json}
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rosa_server.models import registry
from rosa_server.models.backend import Backend, Capabilities, ModelInput, ModelOutput, capabilities_of
from rosa_sim.faults.switch import Switch

SPOILS = ("slow", "nan", "wrong_shape", "out_of_range")
FAR_RAD = 4.0  # beyond every joint of every arm


class FaultyBackend:
    """Runs the backend inside it, and spoils its output as the switch `control` says.

    `{"spoil": NAME}` with a NAME of SPOILS; `{"spoil": "slow", "seconds": 0.8}` says how slow.
    """

    def __init__(self, inner: str, control: str, options: Mapping[str, Any] | None = None) -> None:
        self._inner: Backend = registry.create(inner, **dict(options or {}))
        self._switch = Switch(control)

    @property
    def input_spec(self) -> Any:
        return self._inner.input_spec

    @property
    def capabilities(self) -> Capabilities:
        return capabilities_of(self._inner)

    @property
    def max_batch(self) -> int:
        return self._inner.max_batch

    @property
    def memory_mb(self) -> float:
        return self._inner.memory_mb

    def load(self) -> None:
        self._inner.load()

    def warm_up(self) -> None:
        self._inner.warm_up()

    def close(self) -> None:
        self._inner.close()

    def infer(self, batch: Sequence[ModelInput]) -> list[ModelOutput]:
        outputs = self._inner.infer(batch)
        state = self._switch.state()
        kind = state.get("spoil")
        if kind is None:
            return outputs
        if kind not in SPOILS:
            raise RuntimeError(f"spoil: expected one of {', '.join(SPOILS)}, got {kind!r}")
        if kind == "slow":
            time.sleep(float(state["seconds"]))
            return outputs
        return [spoiled(output, kind) for output in outputs]


def spoiled(output: ModelOutput, kind: str) -> ModelOutput:
    """`output` with its `actions` (horizon, joints + 1) made unusable; an output without actions stays as it is."""
    if "actions" not in output.arrays:
        return output
    actions = np.array(output.arrays["actions"])
    if kind == "nan":
        actions[len(actions) // 2, 0] = np.nan
    elif kind == "wrong_shape":
        actions = actions[:, :-1]
    else:
        actions[len(actions) // 2 :, 0] += FAR_RAD
    return replace(output, arrays={**output.arrays, "actions": actions})
