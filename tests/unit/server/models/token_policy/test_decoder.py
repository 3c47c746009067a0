"""The decoder is Llama: with the same weights it says the same as `transformers`' own module."""

from __future__ import annotations

import json
import re

import pytest
import torch
from safetensors.torch import load_file, save_file

from rosa_server.models.registry import BackendError
from rosa_server.models.token_policy.config import TokenPolicyConfig
from rosa_server.models.token_policy.decoder import Decoder, attend_causally
from rosa_server.models.token_policy.llama_weights import load_llama

SMALL = TokenPolicyConfig(
    width=48,
    layers=3,
    heads=6,
    kv_heads=2,
    mlp=80,
    vocabulary=97,
    image_tokens=6,
    state_tokens=1,
    prompt_tokens=4,
    action_tokens=5,
    rms_eps=1e-6,
)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """A tiny random Llama in the published layout, made without `transformers`."""
    torch.manual_seed(0)
    width, kv = SMALL.width, SMALL.kv_heads * SMALL.head_dim
    shapes = {"model.embed_tokens.weight": (97, width), "lm_head.weight": (97, width)}
    for layer in range(SMALL.layers):
        at = f"model.layers.{layer}."
        for name, rows in (("q", width), ("k", kv), ("v", kv), ("o", width)):
            shapes[f"{at}self_attn.{name}_proj.weight"] = (rows, width)
        shapes |= dict.fromkeys((f"{at}mlp.gate_proj.weight", f"{at}mlp.up_proj.weight"), (80, width))
        shapes[f"{at}mlp.down_proj.weight"] = (width, 80)
    tensors = {name: 0.3 * torch.randn(shape) for name, shape in shapes.items()}
    for layer in range(SMALL.layers):
        for name in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"model.layers.{layer}.{name}.weight"] = 1.0 + 0.1 * torch.randn(width)
    tensors["model.norm.weight"] = 1.0 + 0.1 * torch.randn(width)
    path = tmp_path_factory.mktemp("llama") / "model.safetensors"
    save_file(tensors, str(path))
    return path


def test_logits_equal_those_of_transformers(checkpoint):
    transformers = pytest.importorskip("transformers", reason="the reference; requirements/dev.txt has it")
    theirs = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            hidden_size=SMALL.width,
            num_hidden_layers=SMALL.layers,
            num_attention_heads=SMALL.heads,
            num_key_value_heads=SMALL.kv_heads,
            intermediate_size=SMALL.mlp,
            vocab_size=SMALL.vocabulary,
            rms_norm_eps=SMALL.rms_eps,
        )
    ).eval()
    theirs.load_state_dict(load_file(str(checkpoint)))
    ours = Decoder(SMALL)
    load_llama(ours, SMALL, checkpoint)
    tokens = torch.randint(0, SMALL.vocabulary, (3, SMALL.longest))
    with torch.inference_mode():
        expected = theirs(tokens).logits
        states = ours(ours.embedding(tokens), torch.arange(SMALL.longest), attend_causally)
        torch.testing.assert_close(ours.head(states), expected, atol=1e-4, rtol=1e-4)
        assert expected.abs().max() > 1.0


def test_several_files_with_an_index_load_as_one(checkpoint, tmp_path):
    tensors = load_file(str(checkpoint))
    names = sorted(tensors)
    parts = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for file, held in parts.items():
        save_file({f"language_model.{name}": tensors[name] for name in held}, str(tmp_path / file))
    index = {f"language_model.{name}": file for file, held in parts.items() for name in held}
    (tmp_path / "model.safetensors.index.json").write_text(f'{{"weight_map": {index}}}'.replace("'", '"'))
    one, several = Decoder(SMALL), Decoder(SMALL)
    load_llama(one, SMALL, checkpoint)
    load_llama(several, SMALL, tmp_path, prefix="language_model.")
    for name, value in one.state_dict().items():
        torch.testing.assert_close(several.state_dict()[name], value, atol=0, rtol=0)


@pytest.mark.parametrize(
    "name", ["model.norm.weight", "model.layers.1.self_attn.k_proj.weight", "lm_head.weight"]
)
def test_a_tensor_of_another_shape_or_a_missing_one_is_named(checkpoint, tmp_path, name):
    tensors = load_file(str(checkpoint))
    save_file(tensors | {name: tensors[name][:-1].contiguous()}, str(tmp_path / "short.safetensors"))
    with pytest.raises(BackendError, match=re.escape(name) + ".*expected"):
        load_llama(Decoder(SMALL), SMALL, tmp_path / "short.safetensors")
    save_file({k: v for k, v in tensors.items() if k != name}, str(tmp_path / "missing.safetensors"))
    with pytest.raises(BackendError, match=re.escape(name) + " is missing"):
        load_llama(Decoder(SMALL), SMALL, tmp_path / "missing.safetensors")


@pytest.mark.parametrize("wrong", [float("nan"), float("-inf")])
def test_a_tensor_with_values_that_are_not_finite_is_named(checkpoint, tmp_path, wrong):
    """The likeliest of NaN is a token: the model would answer, and move an arm."""
    tensors, name = load_file(str(checkpoint)), "model.layers.2.mlp.up_proj.weight"
    tensors[name][-1, 3] = wrong
    save_file(tensors, str(tmp_path / "wrong.safetensors"))
    with pytest.raises(BackendError, match=re.escape(name) + " has values that are not finite"):
        load_llama(Decoder(SMALL), SMALL, tmp_path / "wrong.safetensors")


def test_a_value_that_the_model_s_type_cannot_hold_is_named(checkpoint, tmp_path):
    tensors = load_file(str(checkpoint))
    tensors["lm_head.weight"][5, 5] = 1e6
    save_file(tensors, str(tmp_path / "large.safetensors"))
    load_llama(Decoder(SMALL), SMALL, tmp_path / "large.safetensors")
    with pytest.raises(
        BackendError, match=r"lm_head\.weight has values that are not finite as torch\.float16"
    ):
        load_llama(Decoder(SMALL).half(), SMALL, tmp_path / "large.safetensors")


def test_an_index_that_names_another_file_is_named(checkpoint, tmp_path):
    tensors = load_file(str(checkpoint))
    save_file({k: v for k, v in tensors.items() if k != "lm_head.weight"}, str(tmp_path / "a.safetensors"))
    index = json.dumps({"weight_map": dict.fromkeys(tensors, "a.safetensors")})
    (tmp_path / "model.safetensors.index.json").write_text(index)
    with pytest.raises(BackendError, match=r"a\.safetensors: tensor lm_head\.weight"):
        load_llama(Decoder(SMALL), SMALL, tmp_path)


def test_what_is_no_checkpoint_is_refused(tmp_path):
    (tmp_path / "text.safetensors").write_text("not a checkpoint")
    with pytest.raises(BackendError):
        load_llama(Decoder(SMALL), SMALL, tmp_path / "text.safetensors")
    with pytest.raises(FileNotFoundError, match=r"index\.json"):
        load_llama(Decoder(SMALL), SMALL, tmp_path)


def test_sizes_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="kv_heads"):
        TokenPolicyConfig(48, 1, 6, 4, 8, 9, 1, 1, 1, 1)
    with pytest.raises(ValueError, match="do not share"):
        TokenPolicyConfig(50, 1, 6, 3, 8, 9, 1, 1, 1, 1)
