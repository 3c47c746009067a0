"""Whatever a model answers, its robot gets something that it can read, or a reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from rosa_contract import codec
from rosa_contract.horizon import Horizon
from rosa_server.models.backend import ModelInput, ModelOutput
from rosa_server.models.horizon import POLICIES, Choice
from rosa_server.serving.answers import encoded, finished

ACTIONS = {"actions": np.ones((2, 2), np.float32)}


def answered(output: Any, **asked: Any) -> Any:
    return encoded(finished(ModelInput("system1", **asked), output, False))


def test_an_answer_is_what_the_robot_reads() -> None:
    read = codec.decode_output(answered(ModelOutput(ACTIONS, "safe", "go on")))
    assert (read.arrays["actions"].tolist(), read.verdict, read.text) == ([[1, 1], [1, 1]], "safe", "go on")


@pytest.mark.parametrize(
    ("output", "says"),
    [
        (ModelOutput({"actions": [[1.0, 2.0]]}), "'actions': expected a numpy array, got list"),  # type: ignore[dict-item]
        (ModelOutput({"actions": torch.ones(2, 2)}), "'actions': expected a numpy array, got Tensor"),  # type: ignore[dict-item]
        (ModelOutput(None), "arrays: expected a mapping of names to arrays, got None"),  # type: ignore[arg-type]
        (ModelOutput({1: np.ones(2)}), "arrays: expected names of 1 to 128 characters, got 1"),  # type: ignore[dict-item]
        (ModelOutput({"x" * 129: np.ones(2)}), "arrays: expected names of 1 to 128 characters"),
        (ModelOutput(verdict=None), "verdict: expected text of at most 128 characters, got None"),  # type: ignore[arg-type]
        (ModelOutput(text=b"go"), "text: expected text of at most 65536 characters"),  # type: ignore[arg-type]
        (ModelOutput(text="x" * 65537), "text: expected text of at most 65536 characters"),
    ],
)
def test_what_no_robot_could_read_is_a_bad_output_that_says_why(output: ModelOutput, says: str) -> None:
    cause, reason = answered(output)
    assert cause == "bad_output"
    assert says in reason


@pytest.mark.parametrize("output", [None, "put it there", {"actions": np.ones((2, 2))}])
def test_what_is_no_output_at_all_is_the_models_error(output: Any) -> None:
    assert answered(output)[0] == "model_error"


@pytest.mark.parametrize("choice", [Choice(np.int64(1), "a"), Choice(1, None), Choice(2000, "a"), 1])  # type: ignore[arg-type]
def test_a_policy_that_chooses_nonsense_fails_its_own_request(
    choice: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(POLICIES, "odd", lambda spec, chunk: choice)
    cause, _ = answered(ModelOutput(ACTIONS), horizon=Horizon("odd"))
    assert cause in ("bad_output", "model_error")
