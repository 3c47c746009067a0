"""The unified KV ring buffer: the keys and values of all frames in the pipe, in one block allocated once.

Section 3.3 of ActionFlow keeps a frame's place by its stage and copies every frame one place on after each pass. Here a
frame keeps its slot, and stages rotate over the slots instead, with no copy. One slot more than the pipe has takes what
padding rows write.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rosa_server.engines.pipelined_decode.network import Sizes


class KvRing:
    """Keys and values `(layers, slots + 1, longest, kv_heads, d)`. A token's row is `slot * longest + position`."""

    def __init__(self, config: Sizes, slots: int, device: torch.device, dtype: torch.dtype) -> None:
        shape = (config.layers, slots + 1, config.longest, config.kv_heads, config.head_dim)
        # Zeros, not just space: a masked key may be anything finite, but NaN times zero is NaN.
        self.keys = torch.zeros(shape, device=device, dtype=dtype)
        self.values = torch.zeros(shape, device=device, dtype=dtype)
        self._flat_keys, self._flat_values = self.keys.flatten(1, 2), self.values.flatten(1, 2)
        self.scratch = slots  # the slot of padding rows

    def write(self, layer: int, rows: Tensor, key: Tensor, value: Tensor) -> None:
        """Store the keys and values of packed tokens `(tokens, kv_heads, d)` at `rows` `(tokens,)`."""
        self._flat_keys[layer].index_copy_(0, rows, key)
        self._flat_values[layer].index_copy_(0, rows, value)

    @property
    def bytes(self) -> int:
        return 2 * self.keys.numel() * self.keys.element_size()
