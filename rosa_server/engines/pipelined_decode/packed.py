"""The packed forward pass: ActionFlow's Algorithm 2.

The tokens of a pass lie in one row: first the prefixes of the frames that enter, then the newest token of each frame
inside. Norms and linear layers see the row as one matrix, so the weights are read once. Attention keeps the frames
apart, by one call for the prefixes and one for the decode steps: on an H100 the one variable-length call of the paper's
section 3.3 made a pass 2 to 9 % longer (docs/log.md).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from rosa_server.engines.pipelined_decode.network import Attend, Sizes, StagedDecoder
from rosa_server.engines.pipelined_decode.pipe import Pass
from rosa_server.engines.pipelined_decode.ring import KvRing


@dataclass(frozen=True)
class Layout:
    """Where each token of a pass lies: all that the pass needs besides embeddings."""

    entering: int  # frames with a prefix in this pass
    decoding: int  # rows behind the prefixes
    longest: int  # of the decode steps' histories
    positions: Tensor  # (tokens,) of each token in its own frame
    rows: Tensor  # (tokens,) in the ring
    used: Tensor  # (slots + 1,) keys of each slot that are seen
    slots: Tensor  # (entering + decoding,) whose new token each end is
    steps: Tensor  # (entering + decoding,) which token it is
    ends: Tensor  # (entering + decoding,) the row that tells it

    def tensors(self) -> tuple[Tensor, ...]:
        """In a fixed order, for copying into another layout of the same shape."""
        return self.positions, self.rows, self.used, self.slots, self.steps, self.ends


class PackedForward:
    """Runs passes over one decoder and one ring buffer; greedy, so the next token is the likeliest."""

    def __init__(
        self,
        decoder: StagedDecoder,
        config: Sizes,
        slots: int,
        padded: bool = False,
    ) -> None:
        """`padded`: a decode row for each slot in every pass, so that shapes depend only on how many frames enter."""
        if padded and slots > config.longest:
            raise ValueError(f"PackedForward: {slots} padded slots, but a slot holds {config.longest} rows")
        weight = decoder.head.weight
        self.config, self.slots, self.device = config, slots, weight.device
        self.ring = KvRing(config, slots, weight.device, weight.dtype)
        self.tokens = torch.zeros(slots + 1, config.action_tokens, dtype=torch.long, device=weight.device)
        self._decoder, self._padded = decoder, padded
        self._query = torch.zeros(
            slots + 1, config.heads, 1, config.head_dim, device=weight.device, dtype=weight.dtype
        )
        self._keys_at = torch.arange(config.longest, device=weight.device)

    def run(self, do: Pass, prefixes: Tensor | None) -> None:
        """One pass. `prefixes` `(entering, L_P, width)`; each frame's new token is in `tokens[slot, step]` then."""
        self.forward(self.layout(do), prefixes)

    def forward(self, layout: Layout, prefixes: Tensor | None) -> None:
        """The pass as tensors only: nothing here waits for the device, so a CUDA graph can hold it."""
        parts = [] if prefixes is None else [prefixes.flatten(0, 1)]
        if layout.decoding:
            before = self.tokens[layout.slots[layout.entering :], layout.steps[layout.entering :] - 1]
            parts.append(self._decoder.embedding(before))
        states = self._decoder(torch.cat(parts), layout.positions, self._attend(layout))
        self.tokens[layout.slots, layout.steps] = self._decoder.head(states[layout.ends]).argmax(dim=-1)

    def layout(self, do: Pass) -> Layout:
        """Where the tokens of a pass lie."""
        prefix, longest, scratch = self.config.prefix, self.config.longest, self.ring.scratch
        positions = list(range(prefix)) * len(do.enter)
        rows = [seat.slot * longest + position for seat in do.enter for position in range(prefix)]
        slots = [seat.slot for seat in (*do.enter, *do.decode)]
        steps = [seat.step for seat in (*do.enter, *do.decode)]
        used = [1] * (self.slots + 1)  # an empty slot is masked to one key; its answer is thrown away
        for seat in do.enter:
            used[seat.slot] = prefix
        for seat in do.decode:
            position = prefix + seat.step - 1
            positions.append(position)
            rows.append(seat.slot * longest + position)
            used[seat.slot] = position + 1
        # Of one token each, nothing is ever decoded.
        padding = self.slots - len(do.decode) if self._padded and self.config.action_tokens > 1 else 0
        positions += [0] * padding
        rows += [scratch * longest + number for number in range(padding)]
        slots += [scratch] * padding
        steps += [1] * padding  # after any token
        used[scratch] = max(padding, 1)
        fresh, decoding = len(do.enter) * prefix, len(do.decode) + padding
        ends = [prefix * (number + 1) - 1 for number in range(len(do.enter))]
        limit = longest if self._padded else max((prefix + seat.step for seat in do.decode), default=0)
        lists = (positions, rows, used, slots, steps, [*ends, *range(fresh, fresh + decoding)])
        at = [torch.tensor(one, device=self.device) for one in lists]
        return Layout(len(do.enter), decoding, limit, *at)

    def _attend(self, layout: Layout) -> Attend:
        ring, prefix = self.ring, self.config.prefix
        seen = self._keys_at[: layout.longest] < layout.used[:, None]
        mask = seen[:, None, None]  # (slots + 1, 1, 1, longest)
        fresh, decoded = layout.entering * prefix, layout.slots[layout.entering :]

        def attend(layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            ring.write(layer, layout.rows, key, value)
            out = []
            if layout.entering:
                out.append(_causal(query[:fresh], key[:fresh], value[:fresh], layout.entering))
            if layout.decoding:
                self._query[decoded, :, 0] = query[fresh:]
                keys = ring.keys[layer, :, : layout.longest].transpose(1, 2)
                values = ring.values[layer, :, : layout.longest].transpose(1, 2)
                answers = functional.scaled_dot_product_attention(
                    self._query, keys, values, attn_mask=mask, enable_gqa=True
                )
                out.append(answers[decoded, :, 0])
            return torch.cat(out) if len(out) > 1 else out[0]

        return attend


def _causal(query: Tensor, key: Tensor, value: Tensor, sequences: int) -> Tensor:
    """Whole prefixes of equal length behind one another, `(sequences * L_P, heads, d)`."""
    q, k, v = (one.unflatten(0, (sequences, -1)).transpose(1, 2) for one in (query, key, value))
    seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    return seen.transpose(1, 2).flatten(0, 1)
