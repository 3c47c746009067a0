"""Plain greedy generation, frame by frame: what every engine must equal, and the baselines that it must beat."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from rosa_server.models.token_policy.config import TokenPolicyConfig
from rosa_server.models.token_policy.decoder import Decoder


class GrowingCache:
    """Concatenates at every step, as `transformers` does by default."""

    def __init__(self, config: TokenPolicyConfig) -> None:
        self._held: list[tuple[Tensor, Tensor] | None] = [None] * config.layers

    def __call__(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        held = self._held[layer]
        if held is not None:
            key, value = torch.cat([held[0], key], dim=1), torch.cat([held[1], value], dim=1)
        self._held[layer] = (key, value)
        return _attention(query, key, value, causal=held is None)


class StaticCache:
    """Allocated once for `frames` frames; a step writes in place. `at`: where the next tokens go."""

    def __init__(
        self, config: TokenPolicyConfig, frames: int, device: torch.device, dtype: torch.dtype
    ) -> None:
        shape = (config.layers, frames, config.longest, config.kv_heads, config.head_dim)
        self.keys = torch.zeros(shape, device=device, dtype=dtype)
        self.values = torch.zeros(shape, device=device, dtype=dtype)
        self.at = 0

    def __call__(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        end = self.at + key.shape[1]
        self.keys[layer, :, self.at : end], self.values[layer, :, self.at : end] = key, value
        return _attention(query, self.keys[layer, :, :end], self.values[layer, :, :end], causal=self.at == 0)


@torch.inference_mode()
def generate(
    decoder: Decoder, config: TokenPolicyConfig, prefixes: Tensor, cache: GrowingCache | StaticCache
) -> Tensor:
    """Prefixes `(n, L_P, width)` -> action tokens `(n, K)`: one prefill, then K - 1 decode steps."""
    positions = torch.arange(config.longest, device=prefixes.device)
    hidden, at = prefixes, 0
    tokens = []
    for step in range(config.action_tokens):
        if isinstance(cache, StaticCache):
            cache.at = at
        states = decoder(hidden, positions[at : at + hidden.shape[1]], cache)
        at += hidden.shape[1]
        tokens.append(decoder.head(states[:, -1]).argmax(dim=-1))
        if step + 1 < config.action_tokens:
            hidden = decoder.embedding(tokens[-1])[:, None]
    return torch.stack(tokens, dim=1)


def _attention(query: Tensor, key: Tensor, value: Tensor, causal: bool) -> Tensor:
    q, k, v = (one.transpose(1, 2) for one in (query, key, value))
    seen = functional.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)
    return seen.transpose(1, 2)
