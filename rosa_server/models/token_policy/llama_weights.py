"""Llama weights as published: names and shapes of `transformers`' checkpoints, in one or several safetensors files.

Every tensor is checked before it is copied; a mismatch names it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from rosa_server.models.registry import BackendError
from rosa_server.models.token_policy.config import TokenPolicyConfig
from rosa_server.models.token_policy.decoder import Block, Decoder

INDEX = "model.safetensors.index.json"
Part = tuple[str, int]  # a tensor's name, and how many rows of the target it fills
Fill = tuple[Tensor, Sequence[Part]]  # a target, and what it is stacked of along its first axis


def load_llama(decoder: Decoder, config: TokenPolicyConfig, path: Path, prefix: str = "") -> None:
    """Fill `decoder` from a checkpoint. `prefix` goes before each name: "language_model." in OpenVLA's files.

    Raises `BackendError` naming the first tensor that is missing, of another shape, or not finite.
    """
    copy_tensors(path, llama_fills(decoder, config, prefix))


def llama_fills(decoder: Decoder, config: TokenPolicyConfig, prefix: str = "") -> list[Fill]:
    """Where each published tensor belongs. Queries, keys and values, gate and up are one matrix each here."""
    whole: list[Fill] = [
        (decoder.embedding.weight, [(f"{prefix}model.embed_tokens.weight", config.vocabulary)]),
        (decoder.norm.weight, [(f"{prefix}model.norm.weight", config.width)]),
        (decoder.head.weight, [(f"{prefix}lm_head.weight", config.vocabulary)]),
    ]
    queries, keys = config.heads * config.head_dim, config.kv_heads * config.head_dim
    for number, block in enumerate(decoder.blocks):
        assert isinstance(block, Block)
        at = f"{prefix}model.layers.{number}."
        whole += [
            (block.input_norm.weight, [(f"{at}input_layernorm.weight", config.width)]),
            (
                block.qkv.weight,
                [
                    (f"{at}self_attn.q_proj.weight", queries),
                    (f"{at}self_attn.k_proj.weight", keys),
                    (f"{at}self_attn.v_proj.weight", keys),
                ],
            ),
            (block.output.weight, [(f"{at}self_attn.o_proj.weight", config.width)]),
            (block.mlp_norm.weight, [(f"{at}post_attention_layernorm.weight", config.width)]),
            (
                block.gate_up.weight,
                [(f"{at}mlp.gate_proj.weight", config.mlp), (f"{at}mlp.up_proj.weight", config.mlp)],
            ),
            (block.down.weight, [(f"{at}mlp.down_proj.weight", config.width)]),
        ]
    return whole


def copy_tensors(path: Path, fills: Iterable[Fill]) -> None:
    """Copy the named tensors of a safetensors file, or of a folder with one or several, each checked first."""
    files = _files(path)
    with ExitStack() as stack, torch.no_grad():
        opened = {}
        for file in sorted(set(files.values())):
            try:
                opened[file] = stack.enter_context(safe_open(str(file), framework="pt"))
            except (SafetensorError, OSError) as error:
                raise BackendError("bad_weights", f"{file}: {error}") from error
        for target, parts in fills:
            start = 0
            for name, rows in parts:
                if name not in files:
                    raise BackendError("bad_weights", f"{path}: tensor {name} is missing")
                try:
                    part = opened[files[name]].get_slice(name)
                except SafetensorError as error:  # an index that names another file
                    raise BackendError("bad_weights", f"{files[name]}: tensor {name}: {error}") from error
                expected = [rows, *target.shape[1:]]
                if part.get_shape() != expected:
                    words = f"tensor {name} has shape {part.get_shape()}, expected {expected}"
                    raise BackendError("bad_weights", f"{path}: {words}")
                filled = target[start : start + rows]
                filled.copy_(part[:])
                if not filled.isfinite().all():  # the likeliest of NaN is a token
                    words = f"tensor {name} has values that are not finite as {filled.dtype}"
                    raise BackendError("bad_weights", f"{path}: {words}")
                start += rows


def shapes_of(path: Path) -> dict[str, list[int]]:
    """Tensor name -> its shape, without reading it. Raises `BackendError`."""
    files = _files(path)
    shapes: dict[str, list[int]] = {}
    for file in sorted(set(files.values())):
        try:
            with safe_open(str(file), framework="pt") as opened:
                shapes |= {name: list(opened.get_slice(name).get_shape()) for name in opened.keys()}  # noqa: SIM118 (no mapping)
        except (SafetensorError, OSError) as error:
            raise BackendError("bad_weights", f"{file}: {error}") from error
    return shapes


def _files(path: Path) -> dict[str, Path]:
    """Tensor name -> the file that holds it."""
    if path.is_file():
        return _names_in(path)
    index = path / INDEX
    if index.is_file():
        try:
            told = json.loads(index.read_text())["weight_map"]
            return {str(name): path / Path(str(file)).name for name, file in told.items()}
        except (ValueError, KeyError, AttributeError) as error:
            raise BackendError(
                "bad_weights", f"{index} is not an index of safetensors files: {error!r}"
            ) from error
    single = path / "model.safetensors"
    if single.is_file():
        return _names_in(single)
    raise FileNotFoundError(f"weights {path}: expected a safetensors file, or a folder with {INDEX}")


def _names_in(file: Path) -> dict[str, Path]:
    try:
        with safe_open(str(file), framework="pt") as opened:
            return dict.fromkeys(opened.keys(), file)
    except SafetensorError as error:
        raise BackendError("bad_weights", f"{file}: {error}") from error
