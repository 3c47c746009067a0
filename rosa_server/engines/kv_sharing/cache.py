"""Keys and values of sequences, plain tensors with explicit lengths, so that an engine can keep and batch them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Cache:
    """`n` sequences side by side. Slots `0 .. length - 1` of a row hold its tokens, what follows is padding.

    Keys already carry their rotary positions, and the position of a token is its slot, so rows may be stored, batched
    and separated at will.
    """

    keys: Tensor  # (layers, n, kv_heads, capacity, head_dim)
    values: Tensor  # as keys
    length: Tensor  # (n,) int64

    @property
    def rows(self) -> int:
        """Sequences in it."""
        return self.keys.shape[1]

    @property
    def capacity(self) -> int:
        """Slots of each row, used or not."""
        return self.keys.shape[3]

    @property
    def bytes(self) -> int:
        """Memory of keys and values, padding included."""
        return 2 * self.keys.numel() * self.keys.element_size()

    def take(self, rows: Sequence[int] | Tensor) -> Cache:
        """A copy of these rows, in this order; a row may come more than once."""
        index = torch.as_tensor(rows, dtype=torch.int64, device=self.keys.device)
        return Cache(self.keys[:, index], self.values[:, index], self.length[index])

    def repeat(self, times: int) -> Cache:
        """All rows `times` times, each row's copies next to each other."""
        keys, values = (one.repeat_interleave(times, dim=1) for one in (self.keys, self.values))
        return Cache(keys, values, self.length.repeat_interleave(times))

    def reserve(self, capacity: int) -> Cache:
        """A copy with at least this number of slots in each row."""
        more = max(0, capacity - self.capacity)
        keys, values = (
            torch.nn.functional.pad(one, (0, 0, 0, more)) if more else one.clone()
            for one in (self.keys, self.values)
        )
        return Cache(keys, values, self.length)

    def unbatch(self) -> list[Cache]:
        """One cache of one row for each row, copied, without padding."""
        alone = []
        for row, length in enumerate(self.length.tolist()):
            keys, values = (one[:, row : row + 1, :, :length].clone() for one in (self.keys, self.values))
            alone.append(Cache(keys, values, self.length[row : row + 1].clone()))
        return alone

    @staticmethod
    def batch(caches: Sequence[Cache], room: int = 0) -> Cache:
        """All rows of `caches`, copied, padded to the longest plus `room` slots. Raises `ValueError` for none."""
        if not caches:
            raise ValueError("Cache.batch: expected at least one cache")
        capacity = max(one.capacity for one in caches) + room
        padded = [one.reserve(capacity) for one in caches]
        return Cache(
            torch.cat([one.keys for one in padded], dim=1),
            torch.cat([one.values for one in padded], dim=1),
            torch.cat([one.length for one in padded]),
        )
