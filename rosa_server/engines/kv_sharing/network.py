"""What the engine asks of a network: to see once, and then to speak and to act from what was seen.

A backend's network has these members; see `rosa_server/models/vla/network.py` for one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from rosa_server.engines.kv_sharing.cache import Cache


class PrefixSizes(Protocol):
    """Lengths in tokens, and of an action chunk."""

    @property
    def observation(self) -> int:
        """Tokens of an observation's prefix."""
        ...

    @property
    def longest(self) -> int:
        """Positions of a sequence."""
        ...

    @property
    def horizon(self) -> int:
        """Steps of an action chunk, H."""
        ...


class PrefixNetwork(Protocol):
    """A mixture of transformers whose backbone is read by a language expert and an action expert."""

    @property
    def config(self) -> PrefixSizes:
        """Its sizes."""
        ...

    def cache_bytes(self, tokens: int) -> int:
        """Memory of the keys and values of one sequence of `tokens` tokens."""
        ...

    def observe(self, pictures: Sequence[Tensor], told: Tensor) -> Tensor:
        """Pictures of each camera `(n, 3, h, w)` and proprioception `(n, values)` -> embeddings `(n, P, width)`."""
        ...

    def prefill(self, embeddings: Tensor) -> Cache:
        """Observations `(n, P, width)` -> their cache."""
        ...

    def extend(
        self, cache: Cache, tokens: Tensor, count: Tensor | None = None, in_place: bool = False
    ) -> tuple[Tensor, Cache]:
        """Append tokens `(n, T)`, `count` `(n,)` of each row -> states `(n, T, width)` and the longer cache."""
        ...

    def logits(self, states: Tensor) -> Tensor:
        """States `(..., width)` -> a logit for each token `(..., vocabulary)`."""
        ...

    def refine(self, cache: Cache, noise: Tensor, steps: int) -> tuple[Tensor, Tensor]:
        """Noise `(n, H, A)` -> chunks `(n, H, A)`, and by how much each step changed them, `(n, steps, H, A)`."""
        ...
