"""Backend `vllm` with vLLM itself, on a CPU, in a worker of its own environment: `make test-vllm`.

The model is a small random Idefics3, made here. What is tested is that questions, pictures and verdicts
go the way that the stand-in of the unit tests goes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from rosa_contract.config.models import Model
from rosa_server.models.backend import Backend, ModelInput
from rosa_server.serving.worker.elsewhere import backend_of
from tests.unit.server.models.language.tiny import idefics

PYTHON = os.environ.get("ROSA_VLLM_PYTHON", str(Path(".venv-vllm/bin/python").absolute()))
HEADS = {
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
}  # of 32 values: vLLM has no smaller ones on a CPU
ENGINE = {
    "max_model_len": 512,
    "dtype": "float32",
    "enforce_eager": True,
    "seed": 0,
    "gpu_memory_utilization": 0.1,  # of the main memory, which others use too
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return idefics(tmp_path_factory.mktemp("idefics"), **HEADS)


@pytest.fixture(scope="module")
def vllm(folder: Path) -> Iterator[Backend]:
    questions = {"system2": {"max_new_tokens": 6}, "hand": {"choices": ["open", "closed"], "certainty": 0}}
    options = {
        "model": str(folder),
        "cameras": ["front"],
        "at_once": 4,
        "engine": ENGINE,
        "questions": questions,
        "timeout_s": 300.0,  # the first answer takes long on a busy machine
    }
    made = backend_of("tiny", Model("vllm", options, python=PYTHON))
    made.load()
    yield made
    made.close()


def seen(component: str, seed: int = 0, prompt: str = "pick the cup") -> ModelInput:
    picture = np.random.default_rng(seed).integers(0, 255, (48, 64, 3), dtype=np.uint8)
    return ModelInput(component, prompt, {"front": picture}, robot="panda0")


def test_a_text_is_the_same_twice(vllm: Backend) -> None:
    first, again = (vllm.infer([seen("system2")])[0].text for _ in range(2))
    assert first and first == again


def test_a_verdict_is_one_of_the_allowed_words_with_their_likelihoods(vllm: Backend) -> None:
    [monitor], [hand] = vllm.infer([seen("monitor")]), vllm.infer([seen("hand")])
    assert monitor.verdict in ("ongoing", "done", "failed")
    assert hand.verdict in ("open", "closed")
    assert [name.split()[0] for name in hand.text.split(", ")] == ["open", "closed"]
