"""A model of words by folder: verdicts by likelihood, texts, batches, and each thing that is missing in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from rosa_server.models import registry
from rosa_server.models.backend import ModelInput
from rosa_server.models.language.transformers_vlm import TransformersVlmBackend
from rosa_server.models.requirements import needs
from tests.unit.server.models.language.tiny import FAMILIES, idefics


@pytest.fixture(scope="module", params=FAMILIES)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return FAMILIES[request.param](tmp_path_factory.mktemp(request.param))


@pytest.fixture(scope="module")
def backend(folder: Path) -> TransformersVlmBackend:
    options: dict[str, Any] = {"cameras": ["front", "wrist"], "dtype": "float32"}
    questions = {"system2": {"max_new_tokens": 4}, "hand": {"choices": ["open", "closed"], "certainty": 0}}
    made = registry.create("transformers_vlm", model=str(folder), questions=questions, **options)
    assert isinstance(made, TransformersVlmBackend)
    made.load()
    return made


def seen(component: str, seed: int = 0, prompt: str = "pick the cup", size: int = 96) -> ModelInput:
    random = np.random.default_rng(seed)
    pictures = {
        camera: random.integers(0, 255, (size, size, 3), dtype=np.uint8) for camera in ("front", "wrist")
    }
    return ModelInput(component, prompt, pictures, robot="panda0")


@pytest.mark.slow
def test_each_component_gets_its_kind_of_answer(backend: TransformersVlmBackend) -> None:
    plan, monitor, safety, hand = backend.infer(
        [seen(one) for one in ("system2", "monitor", "safety", "hand")]
    )
    assert plan.text and not plan.verdict
    assert monitor.verdict in ("ongoing", "done", "failed")
    assert safety.verdict in ("safe", "unsafe")
    assert hand.verdict in ("open", "closed")
    assert [name.split()[0] for name in monitor.text.split(", ")] == ["ongoing", "done", "failed"]


@pytest.mark.slow
def test_a_batch_answers_as_each_request_alone(backend: TransformersVlmBackend) -> None:
    asked = [seen(("monitor", "system2", "hand")[n % 3], n, "a longer prompt " * n) for n in range(6)]
    together, alone = backend.infer(asked), [backend.infer([one])[0] for one in asked]
    assert together == alone
    assert len({one.text for one in together}) > 2, "answers depend on what is asked"


def test_likelihoods_are_those_of_the_words_token_by_token(backend: TransformersVlmBackend) -> None:
    one = seen("monitor", 3)
    question = backend._questions["monitor"]
    told = backend._likelihoods([one], [question])[0]
    prompt = backend._prompts([one], [question])[0]
    length = backend._inputs([prompt], [one], "right")["input_ids"].shape[1]
    for word, likelihood in zip(question.words, told, strict=True):
        inputs = backend._inputs([prompt + word], [one], "right")
        with torch.inference_mode():
            shares = backend._network(**inputs).logits.softmax(-1)[0]
        ids = inputs["input_ids"][0]
        expected = float(torch.stack([shares[at - 1, ids[at]] for at in range(length, len(ids))]).prod())
        assert likelihood == pytest.approx(expected, rel=1e-4)


def test_pictures_change_the_answer_and_may_have_any_size(backend: TransformersVlmBackend) -> None:
    first, other = (
        backend._likelihoods([seen("monitor", n)], [backend._questions["monitor"]])[0] for n in (1, 2)
    )
    assert not np.allclose(first, other, rtol=1e-6)
    assert backend.infer([seen("safety", size=200)])[0].verdict
    assert backend.input_spec.resizes == {"front", "wrist"}
    with pytest.raises(ValueError, match="image 'wrist' is missing"):
        backend.infer([ModelInput("monitor", images={"front": np.zeros((8, 8, 3), np.uint8)})])


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return idefics(tmp_path_factory.mktemp("whole"))


def copy(whole: Path, to: Path) -> Path:
    for one in whole.iterdir():
        (to / one.name).write_bytes(one.read_bytes())
    return to


def refusal(**options: Any) -> str:
    with pytest.raises((registry.BackendError, FileNotFoundError)) as caught:
        registry.create("transformers_vlm", **options).load()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_missing_weights_are_named_with_their_path(whole: Path, tmp_path: Path) -> None:
    assert f"{tmp_path / 'none'}: no such folder" in refusal(model=str(tmp_path / "none"))
    assert "config.json: no such file" in refusal(model=str(tmp_path))
    copy(whole, tmp_path)
    (tmp_path / "model.safetensors").unlink()
    assert "model.safetensors" in refusal(model=str(tmp_path))
    assert "`download: true`" in refusal(model="nobody/has-such-a-model")


def test_weights_of_another_shape_are_named_with_both(whole: Path, tmp_path: Path) -> None:
    path = copy(whole, tmp_path) / "model.safetensors"
    weights = load_file(path)
    name = next(one for one in weights if "down_proj" in one)
    save_file({**weights, name: torch.zeros(64, 95)}, path, {"format": "pt"})
    said = refusal(model=str(tmp_path))
    assert "95" in said and "96" in said and "down_proj" in said
    save_file({one: value for one, value in weights.items() if one != name}, path, {"format": "pt"})
    assert "lack 1 of the network's tensors" in refusal(model=str(tmp_path))


def test_weights_without_room_are_refused_with_what_is_needed_and_free(
    whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(needs, "free_mb", lambda device: 0.1)
    said = refusal(model=str(whole))
    assert "its weights need 1 MB in memory, 0 MB are free" in said


def test_a_package_that_is_missing_is_named_with_what_brings_it(
    whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(name: str) -> Any:
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(needs.importlib, "import_module", absent)
    with pytest.raises(registry.BackendError) as caught:
        TransformersVlmBackend(str(whole)).load()
    assert "needs the package torch" in str(caught.value)
    assert "`rosa env transformers`" in str(caught.value)


@pytest.mark.parametrize(
    ("questions", "said"),
    [
        ({"monitor": {"promt": "x"}}, "did you mean 'prompt'?"),
        ({"monitor": {"prompt": "{task}"}}, "no field {task}"),
        ({"monitor": {"choices": ["yes", "no"]}}, "monitor answers ongoing, done, failed"),
        ({"hand": {"choices": ["open"]}}, "expected two words or more"),
        ({"safety": {"certainty": 2}}, "expected 0 to 1"),
    ],
)
def test_a_wrong_question_is_refused_before_anything_is_loaded(questions: Any, said: str) -> None:
    with pytest.raises(registry.BackendError) as caught:
        registry.create("transformers_vlm", model="x", questions=questions)
    assert said in str(caught.value)


def test_other_words_may_stand_for_the_verdicts() -> None:
    asked = {"monitor": {"prompt": "{prompt} Finished?", "choices": {"yes": "done", "no": "ongoing"}}}
    made = TransformersVlmBackend("x", questions=json.loads(json.dumps(asked)))
    question = made._questions["monitor"]
    assert question.text(ModelInput("monitor", "Pick.")) == "Pick. Finished?"
    assert question.verdict(np.array([0.9, 0.1])).verdict == "done"
    assert question.verdict(np.array([0.55, 0.45])).verdict == "ongoing", "not certain enough to act on"
    assert question.verdict(np.array([0.0, 0.0])).verdict == "ongoing"
