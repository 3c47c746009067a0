"""Whatever a model answers, its robot gets something that it can read, or a reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from rosa_contract.wire import codec
from rosa_contract.wire.horizon import Horizon
from rosa_server.models.backend import ModelInput, ModelOutput
from rosa_server.models.horizon import POLICIES, Choice
from rosa_server.models.registry import BackendError
from rosa_server.serving.worker.answers import encoded, failure, finished

ACTIONS = {"actions": np.ones((2, 2), np.float32)}


def answered(output: Any, **asked: Any) -> Any:
    return encoded(finished(ModelInput("system1", **asked), output, False))


def test_an_answer_is_what_the_robot_reads() -> None:
    read = codec.decode_output(answered(ModelOutput(ACTIONS, "safe", "go on")))
    assert (read.arrays["actions"].tolist(), read.verdict, read.text) == ([[1, 1], [1, 1]], "safe", "go on")


# A model of somebody else may answer anything, whatever the type checker says.
WRONG: Any = ModelOutput
ODD: Any = Choice


@pytest.mark.parametrize(
    ("output", "says"),
    [
        (WRONG({"actions": [[1.0, 2.0]]}), "'actions': expected a numpy array, got list"),
        (WRONG({"actions": torch.ones(2, 2)}), "'actions': expected a numpy array, got Tensor"),
        (WRONG(None), "arrays: expected a mapping of names to arrays, got None"),
        (WRONG({1: np.ones(2)}), "arrays: expected names of 1 to 128 characters, got 1"),
        (WRONG({"x" * 129: np.ones(2)}), "arrays: expected names of 1 to 128 characters"),
        (WRONG(verdict=None), "verdict: expected text of at most 128 characters, got None"),
        (WRONG(text=b"go"), "text: expected text of at most 65536 characters"),
        (WRONG(text="x" * 65537), "text: expected text of at most 65536 characters"),
    ],
)
def test_what_no_robot_could_read_is_a_bad_output_that_says_why(output: ModelOutput, says: str) -> None:
    cause, reason = answered(output)
    assert cause == "bad_output"
    assert says in reason


@pytest.mark.parametrize("output", [None, "put it there", {"actions": np.ones((2, 2))}])
def test_what_is_no_output_at_all_is_the_models_error(output: Any) -> None:
    assert answered(output)[0] == "model_error"


@pytest.mark.parametrize("choice", [ODD(np.int64(1), "a"), ODD(1, None), ODD(2000, "a"), 1])
def test_a_policy_that_chooses_nonsense_fails_its_own_request(
    choice: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(POLICIES, "odd", lambda spec, chunk: choice)
    cause, _ = answered(ModelOutput(ACTIONS), horizon=Horizon("odd"))
    assert cause in ("bad_output", "model_error")


def test_a_server_behind_the_model_that_refuses_it_is_no_fault_of_the_robot() -> None:
    refused = BackendError("no_server", "it refuses the `api_key`")
    assert failure(refused, ModelInput("system1"))[0] == "model_error"
    assert failure(ValueError("state is missing"), ModelInput("system1"))[0] == "input_rejected"
