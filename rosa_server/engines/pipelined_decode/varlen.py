"""Variable-length attention of a GPU, and whether this torch has one that reads the ring buffer right."""

from __future__ import annotations

import logging
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

# query, key, value (packed), cumulated queries, cumulated rows of keys, used keys, most queries, most keys -> answers
VarlenAttention = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, int, int], Tensor]
CLOSE = 0.03  # of numbers in 16 bits

log = logging.getLogger(__name__)


def gpu_varlen(device: torch.device, dtype: torch.dtype) -> VarlenAttention | None:
    """Flash attention over sequences of any lengths; None, and a line in the log, where there is none that works.

    It is new in torch, and needs CUDA and 16-bit numbers. Without it scaled dot products are used.
    """
    if dtype not in (torch.bfloat16, torch.float16):
        return None
    try:
        attention = _flash()
    except ImportError as error:
        why = f"this torch has none: {error}"
    else:
        why = problem(attention, device, dtype)
        if not why:
            return attention
    log.warning("attention without variable lengths: %s", why)
    return None


def _flash() -> VarlenAttention:
    from torch.nn.attention.varlen import varlen_attn

    def attention(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        queries_at: Tensor,
        keys_at: Tensor,
        used: Tensor,
        max_queries: int,
        max_keys: int,
    ) -> Tensor:
        answer = varlen_attn(
            query,
            key,
            value,
            queries_at,
            keys_at,
            max_queries,
            max_keys,
            window_size=(-1, 0),
            enable_gqa=True,
            seqused_k=used,
        )
        assert isinstance(answer, Tensor)
        return answer

    return attention


def problem(attention: VarlenAttention, device: torch.device, dtype: torch.dtype) -> str:
    """Why this attention cannot be used: it fails, or sees other keys. Empty when it is right."""
    generator = torch.Generator().manual_seed(0)

    def numbers(rows: int, heads: int) -> Tensor:
        return torch.randn(rows, heads, 64, generator=generator).to(device, dtype)

    # Two slots of four rows: a prefix of three tokens, and one token that sees two keys.
    query, key, value = numbers(4, 4), numbers(8, 2), numbers(8, 2)
    lists = ([0, 3, 4], [0, 4, 8], [3, 2])
    queries_at, keys_at, used = (torch.tensor(one, device=device, dtype=torch.int32) for one in lists)
    expected = []
    for slot in range(2):
        rows = slice(lists[0][slot], lists[0][slot + 1])
        keys = slice(lists[1][slot], lists[1][slot] + lists[2][slot])
        q, k, v = (one.transpose(0, 1)[None] for one in (query[rows], key[keys], value[keys]))
        causal = slot == 0
        answer = functional.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)
        expected.append(answer[0].transpose(0, 1))
    try:
        answered = attention(query, key, value, queries_at, keys_at, used, 3, 4)
    except Exception as error:  # another torch, another GPU: whatever it is, there is another way
        return f"{type(error).__name__}: {error}"
    off = float((answered - torch.cat(expected)).abs().max())
    return "" if off <= CLOSE else f"its answers are off by {off:.2g}"
