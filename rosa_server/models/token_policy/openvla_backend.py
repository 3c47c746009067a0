"""OpenVLA from the folder that it is published in: config.json, tokenizer.json and safetensors files.

A picture and a prompt in, one action of the data set `unnorm_key` out, un-normalised by the folder's own statistics.
The adapter makes the picture, the prompt (`openvla_bridge`) and what the robot plays. Greedy, as OpenVLA answers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rosa_contract.wording import nearest
from rosa_server.models.backend import InputSpec, ModelInput, ModelOutput, check_batch
from rosa_server.models.registry import BackendError
from rosa_server.models.requirements import needs

if TYPE_CHECKING:
    from torch import Tensor

    from rosa_server.models.token_policy.config import TokenPolicyConfig
    from rosa_server.models.token_policy.openvla import OpenVla
    from rosa_server.models.token_policy.vision_transformer import VisionConfig

ENVIRONMENT = "transformers"
DTYPES = ("float32", "bfloat16", "float16")
CAMERA = "image"
MAX_PROMPT_TOKENS = 128
EMPTY = "\u2581"  # the token that stood before the action when OpenVLA was trained
PAD_TO = 64  # the vocabulary is padded to a multiple of this where config.json does not say it
# What transformers' Llama takes where config.json is silent, which is how the published numbers were made.
LLAMA = {"num_attention_heads": 32, "rope_theta": 10_000.0, "rms_norm_eps": 1e-6}
VISION_HEADS = 16  # of DINOv2 large and SigLIP so400m
# Means and deviations of DINOv2's pictures and of SigLIP's, where preprocessor_config.json does not say them.
MEANS = ((0.485, 0.456, 0.406), (0.5, 0.5, 0.5))
DEVIATIONS = ((0.229, 0.224, 0.225), (0.5, 0.5, 0.5))


@dataclass(frozen=True)
class OpenVlaSizes:
    """The parts of one checkpoint."""

    decoder: TokenPolicyConfig
    dino: VisionConfig
    siglip: VisionConfig
    text_tokens: int  # without what the vocabulary was padded with


class OpenVlaBackend:
    """Answers `actions` `(1, columns)` float64, in the units of the data set: one row."""

    def __init__(
        self,
        model: str,
        unnorm_key: str = "",
        device: str = "cpu",
        dtype: str = "bfloat16",
        max_batch: int = 8,
    ) -> None:
        """`model`: a folder. `unnorm_key`: whose statistics, where it has those of several. Raises `ValueError`."""
        if dtype not in DTYPES:
            raise ValueError(f"dtype: expected {', '.join(DTYPES)}, got {dtype!r}")
        self.input_spec = InputSpec({CAMERA: (224, 224)})
        self.max_batch, self.memory_mb = max_batch, 0.0
        self._model, self._key, self._device, self._dtype = model, unnorm_key, device, dtype
        self._network: OpenVla | None = None

    def load(self) -> None:
        """Raises `BackendError` and `FileNotFoundError`, in one line each."""
        torch = needs.package("torch", ENVIRONMENT)
        tokenizers = needs.package("tokenizers", ENVIRONMENT)
        from rosa_server.models.token_policy.openvla import OpenVla, load_openvla

        folder = needs.folder_of(self._model)
        if folder is None:
            raise FileNotFoundError(
                f"{self._model}: no such folder; `model` names the folder of OpenVLA's files"
            )
        told = _json(folder / "config.json")
        self._low, self._high, self._mask = _statistics(folder, told, self._key)
        needs.check_memory(needs.weights_mb(folder), self._device)
        self._sizes = sizes_of(folder, told, len(self._low))
        try:
            self._tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        except Exception as error:  # of a library in Rust, which raises nothing narrower
            raise BackendError("bad_weights", f"{folder}/tokenizer.json: {error}") from error
        self._empty = self._tokenizer.token_to_id(EMPTY)
        side = self._sizes.dino.image
        self.input_spec = InputSpec({CAMERA: (side, side)})
        try:
            with _default(torch, getattr(torch, self._dtype), self._device):
                network = OpenVla(self._sizes.decoder, self._sizes.dino, self._sizes.siglip).eval()
            load_openvla(network, folder)
        except torch.OutOfMemoryError as error:
            raise BackendError("no_memory", f"{self._model}: {str(error).splitlines()[0]}") from error
        given = folder / "preprocessor_config.json"
        pictures = _json(given) if given.is_file() else {}
        self._means = self._constants(torch, pictures.get("means", MEANS))
        self._deviations = self._constants(torch, pictures.get("stds", DEVIATIONS))
        self._network, self._torch = network, torch
        self.memory_mb = sum(one.nbytes for one in network.parameters()) / 1e6

    def warm_up(self) -> None:
        """Run a batch of one, and a full one."""
        side = self.input_spec.images[CAMERA][0]
        blank = ModelInput("system1", "In: What action?\nOut:", {CAMERA: np.zeros((side, side, 3), np.uint8)})
        for size in sorted({1, self.max_batch}):
            self.infer([blank] * size)

    def infer(self, batch: Sequence[ModelInput]) -> list[ModelOutput]:
        """One output per input, in order. Raises `ValueError` for a prompt that is too long."""
        from rosa_server.models.token_policy.openvla import actions_of

        check_batch(self.input_spec, batch, self.max_batch)
        if self._network is None:
            raise RuntimeError("load() comes before infer()")
        words = [self._words(one.prompt) for one in batch]
        tokens = np.zeros((len(batch), self._sizes.decoder.action_tokens), np.int64)
        # Padding would move positions, and answers with them: prompts of one length run together.
        for length in sorted({len(one) for one in words}):
            rows = [row for row, one in enumerate(words) if len(one) == length]
            tokens[rows] = self._generated([batch[row] for row in rows], [words[row] for row in rows])
        actions = actions_of(tokens, self._low, self._high, self._mask, self._sizes.text_tokens)
        return [ModelOutput({"actions": row[None]}) for row in actions]

    def close(self) -> None:
        self._network = None

    def _words(self, prompt: str) -> list[int]:
        words = [int(one) for one in self._tokenizer.encode(prompt).ids]
        if self._empty is not None and words[-1:] != [self._empty]:
            words.append(int(self._empty))
        if not 1 < len(words) <= MAX_PROMPT_TOKENS:
            raise ValueError(f"prompt: expected at most {MAX_PROMPT_TOKENS} tokens, got {len(words)}")
        return words

    def _generated(self, batch: Sequence[ModelInput], words: Sequence[Sequence[int]]) -> NDArray[np.int64]:
        from rosa_server.models.token_policy.generate import StaticCache, generate

        torch, network = self._torch, self._network
        assert network is not None
        config = replace(self._sizes.decoder, prompt_tokens=len(words[0]))
        with torch.inference_mode():
            stacked = np.stack([one.images[CAMERA] for one in batch])
            pictures = torch.from_numpy(stacked).to(self._device).permute(0, 3, 1, 2).float() / 255
            dino, siglip = (
                ((pictures - mean) / deviation).to(network.fc1.weight.dtype)
                for mean, deviation in zip(self._means, self._deviations, strict=True)
            )
            prefixes = network.prefix(dino, siglip, torch.tensor(words, device=self._device))
            cache = StaticCache(config, len(prefixes), prefixes.device, prefixes.dtype)
            found: NDArray[np.int64] = generate(network.decoder, config, prefixes, cache).cpu().numpy()
        return found

    def _constants(self, torch: Any, given: Any) -> list[Tensor]:
        return [torch.tensor(one, dtype=torch.float32, device=self._device)[:, None, None] for one in given]


def sizes_of(folder: Path, config: Mapping[str, Any], columns: int) -> OpenVlaSizes:
    """From the shapes of the checkpoint's tensors, and from config.json where shapes do not say it.

    `columns`: of an action, each a token. Raises `BackendError` naming the tensor that is missing.
    """
    from rosa_server.models.token_policy.config import TokenPolicyConfig
    from rosa_server.models.token_policy.llama_weights import shapes_of

    shapes = shapes_of(folder)

    def shape(name: str) -> Sequence[int]:
        if name not in shapes:
            raise BackendError("bad_weights", f"{folder}: tensor {name} is missing; is this an OpenVLA?")
        return shapes[name]

    text = {**LLAMA, **config.get("text_config", {})}
    at = "language_model.model."
    vocabulary, width = shape(f"{at}embed_tokens.weight")
    heads = int(text["num_attention_heads"])
    keys = shape(f"{at}layers.0.self_attn.k_proj.weight")[0]
    dino = _vision(shapes, shape, "vision_backbone.featurizer.", scaled=True)
    siglip = _vision(shapes, shape, "vision_backbone.fused_featurizer.", scaled=False)
    try:
        decoder = TokenPolicyConfig(
            width=width,
            layers=_count(shapes, f"{at}layers."),
            heads=heads,
            kv_heads=keys * heads // width,
            mlp=shape(f"{at}layers.0.mlp.gate_proj.weight")[0],
            vocabulary=vocabulary,
            image_tokens=dino.patches,
            state_tokens=0,
            prompt_tokens=MAX_PROMPT_TOKENS,
            action_tokens=columns,
            rope_theta=float(text["rope_theta"]),
            rms_eps=float(text["rms_norm_eps"]),
        )
    except (ValueError, ZeroDivisionError) as error:
        raise BackendError("bad_weights", f"{folder}: {error}") from error
    padded = int(config.get("pad_to_multiple_of", PAD_TO))
    return OpenVlaSizes(decoder, dino, siglip, int(text.get("vocab_size", vocabulary)) - padded)


def _vision(shapes: Mapping[str, Sequence[int]], shape: Any, at: str, scaled: bool) -> VisionConfig:
    from rosa_server.models.token_policy.vision_transformer import VisionConfig

    width, _, patch, _ = shape(f"{at}patch_embed.proj.weight")
    side = round(shape(f"{at}pos_embed")[1] ** 0.5)
    registers = shape(f"{at}reg_token")[1] if scaled else 0
    mlp = shape(f"{at}blocks.0.mlp.fc1.weight")[0]
    depth = _count(shapes, f"{at}blocks.")
    return VisionConfig(width, depth, VISION_HEADS, mlp, patch, side * patch, registers, class_token=scaled)


def _count(shapes: Mapping[str, Any], at: str) -> int:
    return 1 + max(int(name.removeprefix(at).split(".")[0]) for name in shapes if name.startswith(at))


def _statistics(folder: Path, told: Mapping[str, Any], key: str) -> tuple[Any, Any, Any]:
    """Lowest and highest value of each column, and which of them are scaled at all."""
    extra = folder / "dataset_statistics.json"  # of a checkpoint that was fine-tuned
    given = told.get("norm_stats") or {}
    if not isinstance(given, dict):
        words = f"norm_stats: expected an object, got {type(given).__name__}"
        raise BackendError("bad_weights", f"{folder / 'config.json'}: {words}")
    known = given | (_json(extra) if extra.is_file() else {})
    chosen = key or (next(iter(known)) if len(known) == 1 else "")
    if chosen not in known:
        words = f"unnorm_key: expected one of {', '.join(known) or 'none'}, got {key!r}{nearest(key, known)}"
        raise BackendError("bad_options", f"{folder}: {words}")
    try:
        one = known[chosen]["action"]
        low, high = (np.array(one[name], np.float64) for name in ("q01", "q99"))
        mask = np.array(one.get("mask", [True] * len(low)), bool)
        if not (
            low.ndim == 1 and low.shape == high.shape == mask.shape
        ):  # NumPy would repeat the shorter one
            raise ValueError(
                f"q01, q99 and mask: expected as many values, got {low.shape}, {high.shape}, {mask.shape}"
            )
        if not (np.isfinite(low).all() and np.isfinite(high).all()):
            raise ValueError("q01 and q99: expected finite numbers")
        return low, high, mask
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise BackendError("bad_weights", f"{folder}: statistics of {chosen}: {error!r}") from error


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BackendError("bad_weights", f"{path}: {error}") from error
    if not isinstance(found, dict):
        raise BackendError("bad_weights", f"{path}: expected an object, got {type(found).__name__}")
    return found


@contextmanager
def _default(torch: Any, dtype: Any, device: str) -> Any:
    """Networks made inside have this type and are on this device."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device(device):
            yield
    finally:
        torch.set_default_dtype(before)
