"""Backend `openvla` on a tiny random checkpoint, in a folder as OpenVLA is published."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from rosa_contract.config.adapter import Adapter
from rosa_server.models.adapters import behind
from rosa_server.models.adapters.resolving import resolve
from rosa_server.models.backend import ModelInput
from rosa_server.models.registry import BackendError, create
from rosa_server.models.token_policy.decoder import attend_causally
from rosa_server.models.token_policy.openvla import OpenVla, load_openvla
from rosa_server.models.token_policy.openvla_backend import EMPTY, OpenVlaBackend, sizes_of
from rosa_server.models.token_policy.vision_transformer import VisionConfig
from tests.system.server_harness import ROOT
from tests.unit.server.models.token_policy.test_openvla import published, write

WIDTH, MLP, LAYERS, VOCABULARY, PADDED = 32, 48, 2, 384, 64
DINO = VisionConfig(width=32, depth=3, heads=16, mlp=64, image=28, registers=4, class_token=True)
SIGLIP = VisionConfig(width=48, depth=3, heads=16, mlp=50, image=28)
WORDS = [
    "<unk>",
    "<s>",
    EMPTY,
    *re.findall(r"\S+", "In Out What action should the robot take to pick cup red a lift : ?"),
]
PROMPT = "In: What action should the robot take to {}?\nOut:"
STATISTICS = {
    "q01": [-0.02, -0.02, -0.02, -0.1, -0.1, -0.1, 0.0],
    "q99": [0.02, 0.03, 0.02, 0.1, 0.1, 0.1, 1.0],
    "mask": [True] * 6 + [False],
}


def tensors() -> dict[str, torch.Tensor]:
    seen = DINO.width + SIGLIP.width
    shapes: dict[str, tuple[int, ...]] = dict(published(DINO, "vision_backbone.featurizer."))
    shapes |= published(SIGLIP, "vision_backbone.fused_featurizer.")
    for name, rows, columns in (("fc1", 4 * seen, seen), ("fc2", WIDTH, 4 * seen), ("fc3", WIDTH, WIDTH)):
        shapes |= {f"projector.{name}.weight": (rows, columns), f"projector.{name}.bias": (rows,)}
    for name in ("model.embed_tokens", "lm_head"):
        shapes[f"language_model.{name}.weight"] = (VOCABULARY, WIDTH)
    shapes["language_model.model.norm.weight"] = (WIDTH,)
    for number in range(LAYERS):
        at = f"language_model.model.layers.{number}."
        for name in "qkvo":
            shapes[f"{at}self_attn.{name}_proj.weight"] = (WIDTH, WIDTH)
        for name in ("gate_proj", "up_proj"):
            shapes[f"{at}mlp.{name}.weight"] = (MLP, WIDTH)
        shapes[f"{at}mlp.down_proj.weight"] = (WIDTH, MLP)
        for name in ("input_layernorm", "post_attention_layernorm"):
            shapes[f"{at}{name}.weight"] = (WIDTH,)
    torch.manual_seed(0)
    return {name: 0.5 * torch.randn(shape) for name, shape in shapes.items()}


def make(folder: Path, **changes: Any) -> Path:
    """The folder of a checkpoint."""
    folder.mkdir(exist_ok=True)
    write(folder, tensors())
    config = {
        "text_config": {"model_type": "llama", "num_attention_heads": 4, "vocab_size": VOCABULARY},
        "pad_to_multiple_of": PADDED,
        "norm_stats": {"bridge_orig": {"action": STATISTICS}},
    }
    (folder / "config.json").write_text(json.dumps(config | changes))
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, "<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("openvla"))


@pytest.fixture(scope="module")
def backend(folder: Path) -> OpenVlaBackend:
    made = OpenVlaBackend(str(folder), dtype="float32")
    made.load()
    made.warm_up()
    return made


def seen(seed: int, task: str, size: int = 28) -> ModelInput:
    picture = np.random.default_rng(seed).integers(0, 255, (size, size, 3), dtype=np.uint8)
    return ModelInput("system1", PROMPT.format(task), {"image": picture})


def test_the_sizes_are_those_of_the_tensors(folder: Path) -> None:
    sizes = sizes_of(folder, json.loads((folder / "config.json").read_text()), 7)
    assert (sizes.dino, sizes.siglip) == (DINO, SIGLIP)
    decoder = sizes.decoder
    assert (decoder.width, decoder.layers, decoder.heads, decoder.kv_heads) == (WIDTH, LAYERS, 4, 4)
    assert (decoder.mlp, decoder.vocabulary, sizes.text_tokens) == (MLP, VOCABULARY, VOCABULARY - PADDED)


def test_it_answers_the_likeliest_bin_of_each_column_one_after_another(
    backend: OpenVlaBackend, folder: Path
) -> None:
    """As the paper says it: whole sequences without a cache, and bins counted from the end of the vocabulary."""
    one = seen(0, "pick a red cup")
    sizes = sizes_of(folder, json.loads((folder / "config.json").read_text()), 7)
    network = OpenVla(sizes.decoder, DINO, SIGLIP).eval()
    load_openvla(network, folder)
    words = [1] + [
        WORDS.index(word) if word in WORDS else 0 for word in re.findall(r"\w+|[^\w\s]+", one.prompt)
    ]
    picture = torch.from_numpy(one.images["image"]).permute(2, 0, 1)[None] / 255
    imagenet = [torch.tensor(v)[:, None, None] for v in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))]
    tokens: list[int] = []
    with torch.inference_mode():
        prompt = torch.tensor([[*words, WORDS.index(EMPTY)]])
        hidden = network.prefix((picture - imagenet[0]) / imagenet[1], picture * 2 - 1, prompt)
        for _ in range(7):
            states = network.decoder(hidden, torch.arange(hidden.shape[1]), attend_causally)
            tokens.append(int(network.decoder.head(states[:, -1]).argmax()))
            told = network.decoder.embedding(torch.tensor([[tokens[-1]]]))
            hidden = torch.cat([hidden, told], dim=1)
    low, high = np.array(STATISTICS["q01"]), np.array(STATISTICS["q99"])
    edges = np.linspace(-1, 1, 256)
    bins = np.clip(VOCABULARY - PADDED - np.array(tokens) - 1, 0, 254)
    share = (edges[bins] + edges[bins + 1]) / 2
    expected = np.where(STATISTICS["mask"], (share + 1) / 2 * (high - low) + low, share)
    [output] = backend.infer([one])
    assert output.arrays["actions"].shape == (1, 7)
    np.testing.assert_allclose(output.arrays["actions"][0], expected, atol=1e-12)


def test_a_batch_of_prompts_of_any_lengths_is_answered_as_each_alone(backend: OpenVlaBackend) -> None:
    batch = [seen(1, "lift a cup"), seen(2, "pick a red cup"), seen(3, "lift the cup")]
    together = [one.arrays["actions"] for one in backend.infer(batch)]
    alone = [backend.infer([one])[0].arrays["actions"] for one in batch]
    np.testing.assert_allclose(np.stack(together), np.stack(alone), atol=1e-12)
    assert len({one.tobytes() for one in alone}) > 1


def test_behind_its_preset_it_moves_a_panda(folder: Path) -> None:
    """One step of the tool becomes one row of joints and a width, 5 times a second."""
    spec = Adapter(preset="openvla_bridge", robot=str(ROOT / "configs/robots/panda.yaml"))
    size = {"cameras": {"image": {"camera": "front", "height": 28, "width": 28, "fit": "stretch"}}}
    data = resolve(spec).to_data()
    data["spec"]["cameras"]["image"] |= size["cameras"]["image"]
    adapted = behind(create("openvla", model=str(folder), dtype="float32"), data)
    adapted.load()
    home = np.array([0.0, -0.2, 0.0, -2.36, 0.0, 2.15, 0.785], np.float32)
    picture = np.random.default_rng(0).integers(0, 255, (480, 640, 3), dtype=np.uint8)
    state = {"joint_position": home, "gripper_width": np.float32([0.04])}
    [output] = adapted.infer([ModelInput("system1", "Pick a red CUP", {"front": picture}, state)])
    assert output.arrays["actions"].shape == (1, 8)
    moved = np.abs(output.arrays["actions"][0, :7] - home).max()
    assert 0 < moved < 0.5
    assert output.arrays["actions"][0, 7] in (0.0, np.float32(0.08))
    assert output.arrays["step_s"][0] == np.float32(0.2)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"norm_stats": {}}, "unnorm_key: expected one of none"),
        (
            {"norm_stats": {"bridge_orig": {"action": STATISTICS}, "fractal": {"action": STATISTICS}}},
            "unnorm_key: expected one of bridge_orig, fractal",
        ),
        ({"norm_stats": {"bridge_orig": {"action": {"q01": [0.0]}}}}, "statistics of bridge_orig"),
        (
            {"norm_stats": {"bridge_orig": {"action": STATISTICS | {"mask": [True]}}}},
            "q01, q99 and mask: expected as many values",
        ),
        (
            {"norm_stats": {"bridge_orig": {"action": STATISTICS | {"q99": STATISTICS["q99"][:1]}}}},
            "q01, q99 and mask: expected as many values",
        ),
        (
            {"norm_stats": {"bridge_orig": {"action": {"q01": [None], "q99": [1.0]}}}},
            "expected finite numbers",
        ),
        (
            {"norm_stats": {"bridge_orig": {"action": {"q01": [10**400], "q99": [1.0]}}}},
            "statistics of bridge_orig",
        ),
        ({"norm_stats": None}, "unnorm_key: expected one of none"),
        ({"norm_stats": [1]}, "norm_stats: expected an object, got list"),
        ({"text_config": {"num_attention_heads": 5}}, "5 heads do not share a width of 32"),
    ],
)
def test_what_does_not_fit_is_one_line(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(BackendError, match=re.escape(said)) as caught:
        OpenVlaBackend(str(make(tmp_path / "model", **changes))).load()
    assert "\n" not in str(caught.value)


def test_a_folder_of_something_else_is_named(tmp_path: Path) -> None:
    folder = make(tmp_path / "model")
    write(folder, {name: one for name, one in tensors().items() if "patch_embed.proj.weight" not in name})
    with pytest.raises(BackendError, match=r"featurizer\.patch_embed\.proj\.weight is missing"):
        OpenVlaBackend(str(folder)).load()
    with pytest.raises(FileNotFoundError, match="no such folder"):
        OpenVlaBackend("openvla/openvla-7b").load()


def test_a_prompt_that_is_too_long_is_refused(backend: OpenVlaBackend) -> None:
    with pytest.raises(ValueError, match="expected at most 128 tokens"):
        backend.infer([seen(0, "cup " * 200)])
