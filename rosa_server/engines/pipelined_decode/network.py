"""What the engine asks of a decoder: packed tokens in, states out, with attention that is the engine's.

A backend's decoder has these members; see `rosa_server/models/token_policy/decoder.py` for one.
"""

from __future__ import annotations

from typing import Protocol

from torch import Tensor, nn


class Attend(Protocol):
    """Attention of one layer over packed tokens; it also keeps the keys and values that later passes need."""

    def __call__(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """`(tokens, heads, d)`, twice `(tokens, kv_heads, d)`, positions applied -> `(tokens, heads, d)`."""
        ...


class Sizes(Protocol):
    """Sizes of a decoder and of what it reads and answers."""

    @property
    def layers(self) -> int:
        """Blocks."""
        ...

    @property
    def heads(self) -> int:
        """Heads of queries."""
        ...

    @property
    def kv_heads(self) -> int:
        """Heads of keys and values."""
        ...

    @property
    def head_dim(self) -> int:
        """Width of a head, d."""
        ...

    @property
    def prefix(self) -> int:
        """L_P: tokens of one prefill."""
        ...

    @property
    def action_tokens(self) -> int:
        """K: tokens of one answer."""
        ...

    @property
    def longest(self) -> int:
        """Tokens of a frame that are ever in the cache."""
        ...


class StagedDecoder(Protocol):
    """A transformer that treats each token by itself, but for its attention."""

    @property
    def embedding(self) -> nn.Embedding:
        """Tokens -> embeddings `(..., width)`."""
        ...

    @property
    def head(self) -> nn.Linear:
        """States `(..., width)` -> logits `(..., vocabulary)`."""
        ...

    def __call__(self, hidden: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        """Embeddings `(..., tokens, width)`, positions `(..., tokens)` in their own sequences -> states."""
        ...
