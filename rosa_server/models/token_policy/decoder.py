"""A Llama decoder over packed tokens (Touvron et al. 2023): RMSNorm, rotary positions, grouped-query attention, SwiGLU.

Everything but attention treats each token by itself, so tokens of any sequences may lie side by side in one row. Which
tokens see which, and where keys and values are kept, is the caller's `Attend`.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from rosa_server.engines.pipelined_decode.network import Attend
from rosa_server.models.token_policy.config import TokenPolicyConfig


class Block(nn.Module):
    """Attention and SwiGLU, each with a norm before and a residual around it."""

    def __init__(self, config: TokenPolicyConfig) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = config.heads, config.kv_heads, config.head_dim
        together = (config.heads + 2 * config.kv_heads) * config.head_dim
        self.input_norm = nn.RMSNorm(config.width, eps=config.rms_eps)
        self.qkv = nn.Linear(config.width, together, bias=False)
        self.output = nn.Linear(config.width, config.width, bias=False)
        self.mlp_norm = nn.RMSNorm(config.width, eps=config.rms_eps)
        self.gate_up = nn.Linear(config.width, 2 * config.mlp, bias=False)
        self.down = nn.Linear(config.mlp, config.width, bias=False)

    def forward(self, layer: int, hidden: Tensor, cos: Tensor, sin: Tensor, attend: Attend) -> Tensor:
        """`(tokens, width)` -> the same shape; `cos` and `sin` `(tokens, 1, d)`."""
        heads = self.qkv(self.input_norm(hidden)).unflatten(-1, (-1, self.head_dim))
        turned, value = heads.split([self.heads + self.kv_heads, self.kv_heads], dim=-2)
        turned = rotated(turned, cos, sin)
        query, key = turned.split([self.heads, self.kv_heads], dim=-2)
        hidden = hidden + self.output(attend(layer, query, key, value).flatten(-2))
        gate, up = self.gate_up(self.mlp_norm(hidden)).chunk(2, dim=-1)
        thought: Tensor = self.down(functional.silu(gate) * up)
        return hidden + thought


class Decoder(nn.Module):
    """Embeddings in, logits out. It does not know which tokens belong together."""

    cos: Tensor
    sin: Tensor

    def __init__(self, config: TokenPolicyConfig) -> None:
        super().__init__()
        self.embedding = nn.Embedding(config.vocabulary, config.width)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = nn.RMSNorm(config.width, eps=config.rms_eps)
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)
        steps = torch.arange(0, config.head_dim, 2, dtype=torch.float32) / config.head_dim
        angles = torch.outer(torch.arange(config.longest).float(), config.rope_theta**-steps)
        angles = torch.cat([angles, angles], dim=-1)[:, None]  # (longest, 1, d)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, hidden: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        """Embeddings `(..., tokens, width)`, positions `(..., tokens)` in their own sequences -> normed states."""
        cos, sin = self.cos[positions].to(hidden.dtype), self.sin[positions].to(hidden.dtype)
        for layer, block in enumerate(self.blocks):
            hidden = block(layer, hidden, cos, sin, attend)
        normed: Tensor = self.norm(hidden)
        return normed


def rotated(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary positions (Su et al. 2021), the halves of a head as real and imaginary parts, as Llama stores them."""
    half = heads.shape[-1] // 2
    swapped = torch.cat([-heads[..., half:], heads[..., :half]], dim=-1)
    return heads * cos + swapped * sin


def attend_causally(layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Whole sequences of equal length, `(n, tokens, heads, d)`: each token sees itself and those before it."""
    q, k, v = (one.transpose(-3, -2) for one in (query, key, value))
    seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    return seen.transpose(-3, -2)
