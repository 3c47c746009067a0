"""OpenVLA's layout on a tiny random checkpoint: names, shapes, and the arithmetic of `transformers`' own encoders."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from rosa_server.models.registry import BackendError
from rosa_server.models.token_policy.config import OPENVLA_7B, TokenPolicyConfig
from rosa_server.models.token_policy.decoder import attend_causally
from rosa_server.models.token_policy.openvla import OpenVla, actions_of, load_openvla
from rosa_server.models.token_policy.vision_transformer import DINOV2_LARGE, SIGLIP_SO400M, VisionConfig

LLAMA = TokenPolicyConfig(
    width=32,
    layers=2,
    heads=4,
    kv_heads=4,
    mlp=48,
    vocabulary=64,
    image_tokens=4,
    state_tokens=0,
    prompt_tokens=3,
    action_tokens=7,
)
DINO = VisionConfig(width=24, depth=3, heads=2, mlp=96, image=28, registers=4, class_token=True)
SIGLIP = VisionConfig(width=36, depth=4, heads=3, mlp=50, image=28)


def published(vision: VisionConfig, at: str) -> dict[str, tuple[int, ...]]:
    """The tensors of one of timm's encoders, the unused last block included."""
    width = vision.width
    shapes = {
        f"{at}patch_embed.proj.weight": (width, 3, 14, 14),
        f"{at}patch_embed.proj.bias": (width,),
        f"{at}pos_embed": (1, vision.patches, width),
        f"{at}norm.weight": (width,),
    }
    if vision.class_token:
        shapes |= {f"{at}cls_token": (1, 1, width), f"{at}reg_token": (1, 4, width)}
    for number in range(vision.depth):
        here = f"{at}blocks.{number}."
        for name, rows, columns in (
            ("attn.qkv", 3 * width, width),
            ("attn.proj", width, width),
            ("mlp.fc1", vision.mlp, width),
            ("mlp.fc2", width, vision.mlp),
        ):
            shapes |= {f"{here}{name}.weight": (rows, columns), f"{here}{name}.bias": (rows,)}
        for name in ("norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias"):
            shapes[here + name] = (width,)
        if vision.class_token:
            shapes |= {f"{here}ls1.scale_factor": (width,), f"{here}ls2.scale_factor": (width,)}
    return shapes


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """A folder with two files and an index, as OpenVLA is published."""
    seen, width = DINO.width + SIGLIP.width, LLAMA.width
    shapes = published(DINO, "vision_backbone.featurizer.")
    shapes |= published(SIGLIP, "vision_backbone.fused_featurizer.")
    for name, rows, columns in (("fc1", 4 * seen, seen), ("fc2", width, 4 * seen), ("fc3", width, width)):
        shapes |= {f"projector.{name}.weight": (rows, columns), f"projector.{name}.bias": (rows,)}
    shapes |= dict.fromkeys(
        ("language_model.model.embed_tokens.weight", "language_model.lm_head.weight"), (64, width)
    )
    shapes["language_model.model.norm.weight"] = (width,)
    for number in range(LLAMA.layers):
        at = f"language_model.model.layers.{number}."
        for name in "qkvo":
            shapes[f"{at}self_attn.{name}_proj.weight"] = (width, width)
        shapes |= dict.fromkeys((f"{at}mlp.gate_proj.weight", f"{at}mlp.up_proj.weight"), (48, width))
        shapes[f"{at}mlp.down_proj.weight"] = (width, 48)
        shapes |= dict.fromkeys(
            (f"{at}input_layernorm.weight", f"{at}post_attention_layernorm.weight"), (width,)
        )
    torch.manual_seed(0)
    tensors = {name: 0.3 * torch.randn(shape) for name, shape in shapes.items()}
    folder = tmp_path_factory.mktemp("openvla")
    write(folder, tensors)
    return folder, tensors


def write(folder, tensors):
    names = sorted(tensors)
    parts = {"model-00001.safetensors": names[::2], "model-00002.safetensors": names[1::2]}
    for file, held in parts.items():
        save_file({name: tensors[name].contiguous() for name in held}, str(folder / file))
    index = ", ".join(f'"{name}": "{file}"' for file, held in parts.items() for name in held)
    (folder / "model.safetensors.index.json").write_text(f'{{"weight_map": {{{index}}}}}')


@pytest.fixture(scope="module")
def network(checkpoint):
    made = OpenVla(LLAMA, DINO, SIGLIP).eval()
    load_openvla(made, checkpoint[0])
    return made


def test_every_weight_comes_from_the_checkpoint(network, checkpoint):
    total = sum(weight.numel() for weight in network.parameters())
    unused = [
        value.numel()
        for name, value in checkpoint[1].items()
        if re.search(r"featurizer\.norm\.|\.featurizer\.blocks\.2\.|fused_featurizer\.blocks\.3\.", name)
    ]
    assert total == sum(value.numel() for value in checkpoint[1].values()) - sum(unused)
    assert all(float(weight.detach().std()) > 0.1 for weight in network.parameters() if weight.numel())


def test_dinov2_equals_that_of_transformers(network, checkpoint):
    transformers = pytest.importorskip("transformers", reason="the reference; requirements/dev.txt has it")
    config = transformers.Dinov2WithRegistersConfig(
        hidden_size=24, num_hidden_layers=3, num_attention_heads=2, image_size=28, patch_size=14
    )
    theirs = transformers.Dinov2WithRegistersModel(config).eval()
    told, at = checkpoint[1], "vision_backbone.featurizer."
    ours = theirs.state_dict()
    # Theirs adds a position to the class token too.
    places = torch.cat([torch.zeros(1, 1, 24), told[f"{at}pos_embed"]], dim=1)
    ours |= {
        "embeddings.cls_token": told[f"{at}cls_token"],
        "embeddings.register_tokens": told[f"{at}reg_token"],
        "embeddings.position_embeddings": places,
        "embeddings.patch_embeddings.projection.weight": told[f"{at}patch_embed.proj.weight"],
        "embeddings.patch_embeddings.projection.bias": told[f"{at}patch_embed.proj.bias"],
    }
    for number in range(3):
        block, layer = f"{at}blocks.{number}.", f"encoder.layer.{number}."
        for kind in ("weight", "bias"):
            split = told[f"{block}attn.qkv.{kind}"].chunk(3)
            ours |= {f"{layer}attention.{n}_proj.{kind}": part for n, part in zip("qkv", split, strict=True)}
            ours[f"{layer}attention.o_proj.{kind}"] = told[f"{block}attn.proj.{kind}"]
            for name in ("norm1", "norm2", "mlp.fc1", "mlp.fc2"):
                ours[f"{layer}{name}.{kind}"] = told[f"{block}{name}.{kind}"]
        for n in (1, 2):
            ours[f"{layer}layer_scale{n}.lambda1"] = told[f"{block}ls{n}.scale_factor"]
    theirs.load_state_dict(ours)
    pictures = torch.randn(2, 3, 28, 28)
    with torch.inference_mode():
        expected = theirs(pictures, output_hidden_states=True).hidden_states[2][:, 5:]
        torch.testing.assert_close(network.dino(pictures), expected, atol=1e-4, rtol=1e-4)


def test_siglip_equals_that_of_transformers(network, checkpoint):
    transformers = pytest.importorskip("transformers", reason="the reference; requirements/dev.txt has it")
    config = transformers.SiglipVisionConfig(
        hidden_size=36,
        num_hidden_layers=4,
        num_attention_heads=3,
        intermediate_size=50,
        image_size=28,
        patch_size=14,
        hidden_act="gelu",
    )
    theirs = transformers.SiglipVisionModel(config).eval()
    told, at = checkpoint[1], "vision_backbone.fused_featurizer."
    ours = theirs.state_dict()
    ours |= {
        "embeddings.position_embedding.weight": told[f"{at}pos_embed"][0],
        "embeddings.patch_embedding.weight": told[f"{at}patch_embed.proj.weight"],
        "embeddings.patch_embedding.bias": told[f"{at}patch_embed.proj.bias"],
    }
    for number in range(4):
        block, layer = f"{at}blocks.{number}.", f"encoder.layers.{number}."
        for kind in ("weight", "bias"):
            split = told[f"{block}attn.qkv.{kind}"].chunk(3)
            ours |= {f"{layer}self_attn.{n}_proj.{kind}": part for n, part in zip("qkv", split, strict=True)}
            ours[f"{layer}self_attn.out_proj.{kind}"] = told[f"{block}attn.proj.{kind}"]
            for name, called in (
                ("norm1", "layer_norm1"),
                ("norm2", "layer_norm2"),
                ("mlp.fc1", "mlp.fc1"),
                ("mlp.fc2", "mlp.fc2"),
            ):
                ours[f"{layer}{called}.{kind}"] = told[f"{block}{name}.{kind}"]
    theirs.load_state_dict(ours)
    pictures = torch.randn(2, 3, 28, 28)
    with torch.inference_mode():
        expected = theirs(pictures, output_hidden_states=True).hidden_states[3]
        torch.testing.assert_close(network.siglip(pictures), expected, atol=1e-4, rtol=1e-4)


def test_the_prefix_is_the_first_token_the_patches_and_the_prompt(network):
    prompt = torch.tensor([[1, 20, 21]])
    pictures = torch.randn(1, 3, 28, 28)
    with torch.inference_mode():
        prefix = network.prefix(pictures, pictures, prompt)
        words = network.decoder.embedding(prompt)
        states = network.decoder(prefix, torch.arange(LLAMA.prefix), attend_causally)
    assert prefix.shape == (1, LLAMA.prefix, LLAMA.width) == states.shape
    torch.testing.assert_close(prefix[:, 0], words[:, 0])
    torch.testing.assert_close(prefix[:, 5:], words[:, 1:])
    assert states.isfinite().all()


@pytest.mark.parametrize(
    "name",
    [
        "vision_backbone.featurizer.reg_token",
        "vision_backbone.fused_featurizer.blocks.1.mlp.fc1.bias",
        "projector.fc2.weight",
        "language_model.model.layers.0.mlp.up_proj.weight",
    ],
)
def test_a_tensor_that_does_not_fit_is_named(checkpoint, tmp_path, name):
    tensors = {
        part: value
        for file in checkpoint[0].glob("*.safetensors")
        for part, value in load_file(str(file)).items()
    }
    write(tmp_path, tensors | {name: tensors[name][..., :-1]})
    with pytest.raises(BackendError, match=re.escape(name) + " has shape"):
        load_openvla(OpenVla(LLAMA, DINO, SIGLIP), tmp_path)
    write(tmp_path, {part: value for part, value in tensors.items() if part != name})
    with pytest.raises(BackendError, match=re.escape(name) + " is missing"):
        load_openvla(OpenVla(LLAMA, DINO, SIGLIP), tmp_path)


def test_the_published_sizes():
    with torch.device("meta"):
        network = OpenVla()
    assert DINOV2_LARGE.patches == SIGLIP_SO400M.patches == OPENVLA_7B.image_tokens == 256
    # 7.54 billion are published; the last block of each encoder and what follows it are not built.
    total = sum(weight.numel() for weight in network.parameters())
    assert 7.4e9 < total < 7.55e9


def test_tokens_are_bins_from_the_end_of_the_vocabulary():
    low, high = np.full(7, -2.0), np.full(7, 4.0)
    tokens = np.array([[31_999, 31_744, 31_872, 31_999, 31_999, 31_999, 31_999]])
    actions = actions_of(tokens, low, high)
    first, last = -1 + 1 / 255, 1 - 1 / 255
    expected = [(value + 1) * 3 - 2 for value in (first, last, 0.0)]
    np.testing.assert_allclose(actions[0, :3], expected, atol=0.02)
    np.testing.assert_allclose(actions[0, 6], first)
    assert np.isfinite(actions_of(np.array([[0, 1, 40_000, 5, 6, 7, 8]]), low, high)).all()
