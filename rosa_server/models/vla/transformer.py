"""The layers of both experts: gated MLPs, grouped-query attention, rotary positions, RMS norms (Gemma's kind).

The action expert's norms are adaptive: scale, shift and gate come from the flow's time (pi0.5).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from rosa_server.models.vla.config import VlaConfig


class Heads(nn.Module):
    """Queries, keys and values of an expert of some width, and the way back into it."""

    def __init__(self, config: VlaConfig, width: int) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = config.heads, config.kv_heads, config.head_dim
        self.qkv = nn.Linear(width, (config.heads + 2 * config.kv_heads) * config.head_dim, bias=False)
        self.output = nn.Linear(config.heads * config.head_dim, width, bias=False)
        # Keys start as the first queries of their group: tokens look at their like from the first step.
        with torch.no_grad():
            queries, keys, _ = self.qkv.weight.unflatten(0, (-1, config.head_dim)).split(
                [config.heads, config.kv_heads, config.kv_heads]
            )
            queries.mul_(1.5)
            keys.copy_(queries[:: config.heads // config.kv_heads])

    def split(self, normed: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """`(n, t, width)` -> queries `(n, heads, t, d)`, keys and values `(n, kv_heads, t, d)`, positions applied.

        `cos` and `sin`: `(n or 1, 1, t, d)`.
        """
        parts = self.qkv(normed).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
        turned, value = parts.split([self.heads + self.kv_heads, self.kv_heads], dim=1)
        query, key = rotated(turned, cos, sin).split([self.heads, self.kv_heads], dim=1)
        return query, key, value

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        """Attention `(n, t, width)`; `mask` `(n, 1, t, slots)` is true where a token may look."""
        tokens, group = query.shape[2], self.heads // self.kv_heads
        # Heads that share keys stand one below the other: one product for all of them, and no copies of the keys.
        grouped = query.unflatten(1, (self.kv_heads, group)).flatten(2, 3)  # (n, kv_heads, group * t, d)
        if mask is not None:
            mask = mask.repeat(1, 1, group, 1)
        seen = functional.scaled_dot_product_attention(grouped, key, value, attn_mask=mask)
        seen = seen.unflatten(2, (group, tokens)).flatten(1, 2)
        back: Tensor = self.output(seen.transpose(1, 2).flatten(2))
        return back


class GatedMlp(nn.Module):
    """GeGLU."""

    def __init__(self, width: int, mlp: int) -> None:
        super().__init__()
        self.gate_up = nn.Linear(width, 2 * mlp, bias=False)
        self.down = nn.Linear(mlp, width, bias=False)

    def forward(self, normed: Tensor) -> Tensor:
        gate, up = self.gate_up(normed).chunk(2, dim=-1)
        down: Tensor = self.down(functional.gelu(gate, approximate="tanh") * up)
        return down


class BackboneLayer(nn.Module):
    """A layer of the backbone, which also is the language expert's."""

    def __init__(self, config: VlaConfig) -> None:
        super().__init__()
        self.input_norm = nn.RMSNorm(config.width, eps=config.rms_eps)
        self.heads = Heads(config, config.width)
        self.mlp_norm = nn.RMSNorm(config.width, eps=config.rms_eps)
        self.mlp = GatedMlp(config.width, config.mlp)

    def think(self, hidden: Tensor, attended: Tensor) -> Tensor:
        """What follows attention, `(n, t, width)` each."""
        hidden = hidden + attended
        thought: Tensor = hidden + self.mlp(self.mlp_norm(hidden))
        return thought


class ActionLayer(nn.Module):
    """A layer of the action expert, narrower, with adaptive norms."""

    def __init__(self, config: VlaConfig) -> None:
        super().__init__()
        width = config.expert_width
        self.input_norm = AdaptiveNorm(config)
        self.heads = Heads(config, width)
        self.mlp_norm = AdaptiveNorm(config)
        self.mlp = GatedMlp(width, config.expert_mlp)


class AdaptiveNorm(nn.Module):
    """An RMS norm whose scale and shift, and the gate of what follows, depend on a condition."""

    def __init__(self, config: VlaConfig) -> None:
        super().__init__()
        self.width, self.eps = config.expert_width, config.rms_eps
        self.modulate = nn.Linear(self.width, 3 * self.width)
        nn.init.zeros_(self.modulate.weight)
        nn.init.zeros_(self.modulate.bias)

    def forward(self, hidden: Tensor, condition: Tensor) -> tuple[Tensor, Tensor]:
        """Hidden `(n, t, width)`, condition `(n, width)` -> normed `(n, t, width)` and gate `(n, 1, width)`."""
        scale, shift, gate = self.modulate(condition)[:, None].chunk(3, dim=-1)
        normed = functional.rms_norm(hidden, (self.width,), eps=self.eps)
        return normed * (1.0 + scale) + shift, 1.0 + gate


def rotary(config: VlaConfig) -> tuple[Tensor, Tensor]:
    """Cosines and sines `(longest, head_dim)` of rotary positions (Su et al. 2021)."""
    steps = torch.arange(0, config.head_dim, 2, dtype=torch.float32) / config.head_dim
    angles = torch.outer(torch.arange(config.longest).float(), config.rope_theta**-steps)
    angles = torch.cat([angles, angles], dim=-1)
    return angles.cos(), angles.sin()


def rotated(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """`(n, heads, t, d)` at its positions; the halves of a head are real and imaginary parts."""
    half = heads.shape[-1] // 2
    swapped = torch.cat([-heads[..., half:], heads[..., :half]], dim=-1)
    return heads * cos + swapped * sin
