"""Chunked prefill, as vLLM does it, on the same decoder: what pipelined decoding has to beat.

Each pass has one chunk of the frame that enters and one decode step of every frame that is in. A frame takes as many
passes as its prefix has chunks, and one for each further token; with one chunk this is pipelined decoding. On CUDA a
pass is a graph for each chunk, and decode rows are padded to the number of slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil

import torch
from torch import Tensor
from torch.nn import functional

from benchmarks.engines.captured import Captured
from rosa_server.engines.pipelined_decode.ring import KvRing
from rosa_server.models.token_policy.config import TokenPolicyConfig
from rosa_server.models.token_policy.decoder import Decoder


@dataclass
class Chunking:
    """A frame inside. `said`: tokens so far; while there are none, `read` chunks of its prefix have been."""

    number: int
    slot: int
    read: int = 0
    said: int = 0


@dataclass
class ChunkedPrefill:
    """Runs passes; there is always another frame."""

    decoder: Decoder
    config: TokenPolicyConfig
    chunks: int  # of a prefix
    _inside: list[Chunking] = field(default_factory=list)
    _graphs: dict[int, Captured[None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        config, weight = self.config, self.decoder.head.weight
        self.device = weight.device
        self.size = ceil(config.prefix / self.chunks)
        self.slots = ceil((self.chunks + config.action_tokens - 1) / self.chunks)
        self._ring = KvRing(config, self.slots, weight.device, weight.dtype)
        self.tokens = torch.zeros(
            self.slots + 1, max(2, config.action_tokens), dtype=torch.long, device=weight.device
        )
        self._keys_at = torch.arange(config.longest, device=weight.device)

    def step(self, prefix: Tensor, number: int) -> tuple[list[Chunking], bool]:
        """One pass; `prefix` `(L_P, width)` and `number` are the next frame's, taken where none is being read.

        Returns the frames that are done, and whether the next one was taken.
        """
        reading = next((one for one in self._inside if not one.said), None)
        taken = reading is None
        if reading is None:
            used = {one.slot for one in self._inside}
            free = next(slot for slot in range(self.slots) if slot not in used)
            reading = Chunking(number, free)
            self._inside.append(reading)
            self._prefix = prefix
        decoding = [one for one in self._inside if one.said]
        self._pass(reading, decoding)
        reading.read += 1
        for one in decoding:
            one.said += 1
        if reading.read == self.chunks:
            reading.said = 1
        done = [one for one in self._inside if one.said == self.config.action_tokens]
        self._inside = [one for one in self._inside if one.said < self.config.action_tokens]
        return done, taken

    def _pass(self, reading: Chunking, decoding: Sequence[Chunking]) -> None:
        config, longest, scratch = self.config, self.config.longest, self._ring.scratch
        begin = reading.read * self.size
        part = self._prefix[begin : begin + self.size]
        at = [config.prefix + one.said - 1 for one in decoding]
        slots, said = [one.slot for one in decoding], [one.said for one in decoding]
        rows = [one.slot * longest + place for one, place in zip(decoding, at, strict=True)]
        used = [1] * (self.slots + 1)
        for slot, place in zip(slots, at, strict=True):
            used[slot] = place + 1
        padding = self.slots - len(decoding) if self.device.type == "cuda" else 0
        lists = (
            [*range(begin, begin + len(part)), *at, *[0] * padding],
            [
                *range(reading.slot * longest + begin, reading.slot * longest + begin + len(part)),
                *rows,
                *range(scratch * longest, scratch * longest + padding),
            ],
            used,
            [*slots, *[scratch] * padding],
            [*said, *[1] * padding],
            [reading.slot],
        )
        given = [part, *(torch.tensor(one, device=self.device, dtype=torch.long) for one in lists)]
        if self.device.type != "cuda":
            self._forward(begin, *given)
            return
        if reading.read not in self._graphs:
            self._graphs[reading.read] = Captured(
                lambda *tensors, begin=begin: self._forward(begin, *tensors), given
            )
        self._graphs[reading.read](*given)

    @torch.inference_mode()
    def _forward(
        self,
        begin: int,
        part: Tensor,
        positions: Tensor,
        rows: Tensor,
        used: Tensor,
        slots: Tensor,
        said: Tensor,
        reads: Tensor,
    ) -> None:
        """The pass as tensors only. `reads` `(1,)`: the slot of the frame whose chunk `part` is."""
        count, ring = len(part), self._ring
        end = begin + count
        whole = end >= self.config.prefix
        sees = self._keys_at[:end] <= self._keys_at[begin:end, None]  # (count, end)
        mask = (self._keys_at < used[slots][:, None])[:, None, None]  # (decoding, 1, 1, longest)

        def attend(layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            ring.write(layer, rows, key, value)
            keys, values = (held[layer].index_select(0, reads)[:, :end].transpose(1, 2) for held in _of(ring))
            chunk = functional.scaled_dot_product_attention(
                query[:count].transpose(0, 1)[None], keys, values, attn_mask=sees, enable_gqa=True
            )
            out = [chunk[0].transpose(0, 1)]
            if len(slots):
                keys, values = (held[layer].index_select(0, slots).transpose(1, 2) for held in _of(ring))
                asked = query[count:, :, None]
                out.append(
                    functional.scaled_dot_product_attention(
                        asked, keys, values, attn_mask=mask, enable_gqa=True
                    )[:, :, 0]
                )
            return torch.cat(out)

        hidden = torch.cat([part, self.decoder.embedding(self.tokens[slots, said - 1])])
        states = self.decoder(hidden, positions, attend)
        new = self.decoder.head(states[count - 1 :]).argmax(dim=-1)
        self.tokens[slots, said] = new[1:]
        if whole:
            self.tokens[reads, 0] = new[:1]


def _of(ring: KvRing) -> tuple[Tensor, Tensor]:
    return ring.keys, ring.values
