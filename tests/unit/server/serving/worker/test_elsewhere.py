"""A model in a separate worker process, as commands use one that has another Python."""

from __future__ import annotations

import numpy as np
import pytest

from rosa_server.models.backend import ModelInput
from rosa_server.serving.base.worker_spec import WorkerSpec
from rosa_server.serving.worker import elsewhere


def seen(joint: float) -> ModelInput:
    return ModelInput("system1", state={"joint_position": np.array([joint], np.float32)})


def test_an_answer_that_came_too_late_is_not_that_of_the_next_observation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = {"latency_ms": 1000.0, "state": {"joint_position": 1}, "horizon": 1, "dof": 1}
    backend = elsewhere.Elsewhere(WorkerSpec("slow/0.1", "slow", "emulated", "", None, options))
    backend.load()
    try:
        with monkeypatch.context() as short:
            short.setattr(elsewhere, "ANSWER_S", 0.1)
            with pytest.raises(TimeoutError):
                backend.infer([seen(1.0)])
        [answer] = backend.infer([seen(2.0)])
        assert answer.arrays["actions"].tolist() == [[2.0]]
    finally:
        backend.close()
