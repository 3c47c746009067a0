"""The vision-language-action network: observe and prefill once, then extend in words or denoise a chunk of actions.

    observe -> prefill -> extend (prompt, answers) -> velocity (the action expert reads the cache)

A prompt comes after the observation and is no part of it, so all components of a robot that ask about the same
observation share its prefill (OxyGen, section 3.3).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from rosa_server.engines.kv_sharing.cache import Cache
from rosa_server.models.token_policy.vision_transformer import VisionTransformer
from rosa_server.models.vla.config import SHIPPED, VlaConfig
from rosa_server.models.vla.eyes import PointEyes, PointTokens
from rosa_server.models.vla.transformer import ActionLayer, BackboneLayer, rotary

TARGET = (
    5  # training only: block (x, y, z) and bin (x, y) that a prompt is about; `place`: where each point is
)
FASTEST, SLOWEST = 4e-3, 4.0  # periods of the embedding of the flow's time


class VlaNetwork(nn.Module):
    """A mixture of transformers (pi0.5, Black et al. 2025): one backbone for pictures and words, one action expert."""

    cos: Tensor
    sin: Tensor
    periods: Tensor

    def __init__(self, config: VlaConfig = SHIPPED) -> None:
        super().__init__()
        self.config = config
        self.eyes: nn.ModuleList
        if config.vision is None:
            self.eyes = nn.ModuleList(PointEyes(config.points) for _ in range(config.cameras))
            self.project: nn.Module = PointTokens(config.cameras, config.points, config.width)
        else:  # one encoder for all cameras
            self.eyes = nn.ModuleList([VisionTransformer(config.vision)])
            self.project = nn.Linear(config.vision.width, config.width)
        self.state = nn.Sequential(
            nn.Linear(config.proprioception, config.width), nn.GELU(), nn.Linear(config.width, config.width)
        )
        self.embedding = nn.Embedding(config.vocabulary, config.width)
        nn.init.normal_(self.embedding.weight, std=config.width**-0.5)
        self.layers = nn.ModuleList(BackboneLayer(config) for _ in range(config.layers))
        self.norm = nn.RMSNorm(config.width, eps=config.rms_eps)
        self.where = nn.Linear(config.width, TARGET)
        self.place = nn.Linear(config.width, 3)
        expert = config.expert_width
        numbers = config.action_dim * config.steps_per_token
        self.action_in = nn.Linear(numbers, expert)
        self.step = nn.Parameter(torch.randn(config.horizon // config.steps_per_token, expert) * 0.5)
        self.time = nn.Sequential(nn.Linear(expert, expert), nn.SiLU(), nn.Linear(expert, expert), nn.SiLU())
        self.action_layers = nn.ModuleList(ActionLayer(config) for _ in range(config.layers))
        self.action_norm = nn.RMSNorm(expert, eps=config.rms_eps)
        self.action_out = nn.Linear(expert, numbers)
        cos, sin = rotary(config)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        periods = torch.logspace(math.log10(FASTEST), math.log10(SLOWEST), expert // 2)
        self.register_buffer("periods", periods, persistent=False)

    def cache_bytes(self, tokens: int) -> int:
        """Memory of the keys and values of one sequence of `tokens` tokens."""
        return self.config.cache_bytes(tokens, self.embedding.weight.element_size())

    def see(self, pictures: Sequence[Tensor]) -> Tensor:
        """Pictures of each camera `(n, 3, h, w)` in -1..1 -> what the eyes say of them.

        Points: `(n, cameras, points, 3)`. Patches: `(n, cameras * patches, vision width)`.
        """
        if self.config.vision is None:
            return torch.stack([eye(one) for eye, one in zip(self.eyes, pictures, strict=True)], dim=1)
        return torch.cat([self.eyes[0](one) for one in pictures], dim=1)

    def embed(self, seen: Tensor, told: Tensor) -> Tensor:
        """What the eyes say, and proprioception `(n, 11)` -> the observation's embeddings `(n, P, width)`."""
        return torch.cat([self.project(seen), self.state(told)[:, None]], dim=1)

    def observe(self, pictures: Sequence[Tensor], told: Tensor) -> Tensor:
        """Pictures of each camera `(n, 3, h, w)` and proprioception `(n, 11)` -> embeddings `(n, P, width)`."""
        return self.embed(self.see(pictures), told)

    def prefill(self, embeddings: Tensor) -> Cache:
        """Observations `(n, P, width)` -> their cache. Tokens of an observation all see each other."""
        return self.understand(embeddings)[1]

    def understand(self, embeddings: Tensor) -> tuple[Tensor, Cache]:
        """As `prefill`, with the normed states of the observation's tokens `(n, P, width)` for training."""
        n, tokens, _ = embeddings.shape
        cos, sin = self.cos[:tokens].to(embeddings.dtype), self.sin[:tokens].to(embeddings.dtype)
        hidden, keys, values = embeddings, [], []
        for layer in cast("Iterable[BackboneLayer]", self.layers):
            query, key, value = layer.heads.split(layer.input_norm(hidden), cos, sin)
            hidden = layer.think(hidden, layer.heads.attend(query, key, value, None))
            keys.append(key)
            values.append(value)
        length = torch.full((n,), tokens, dtype=torch.int64, device=embeddings.device)
        return self.norm(hidden), Cache(torch.stack(keys), torch.stack(values), length)

    def extend(
        self,
        cache: Cache,
        tokens: Tensor,
        count: Tensor | None = None,
        in_place: bool = False,
        watch: list[tuple[Tensor, Tensor]] | None = None,
        fits: bool = False,
    ) -> tuple[Tensor, Cache]:
        """Append tokens `(n, T)` to the rows of a cache -> normed states `(n, T, width)` and the longer cache.

        `count` `(n,)`: how many tokens of each row are real, default all; what comes after them is padding, and its
        states mean nothing. Each token sees its row's cache, itself and the tokens before it. `in_place` writes into
        free slots of the given cache (`Cache.reserve`) instead of a copy; it raises `ValueError` where there are none.
        `fits`: it is known that there are, so nothing here waits for the device, and a CUDA graph can hold it.
        `watch` gets each layer's queries `(n, heads, T, d)` and keys `(n, kv_heads, slots, d)`, for training.
        """
        width = tokens.shape[1]
        slots = cache.length[:, None] + torch.arange(width, device=tokens.device)  # (n, T)
        if in_place:
            capacity = cache.capacity
            if not fits and int(cache.length.max()) + width > capacity:
                raise ValueError(f"extend: no room for {width} more tokens in {capacity} slots")
        else:
            capacity = cache.capacity + width
        hidden = self.embedding(tokens) * self.config.width**0.5
        cos, sin = (table[slots][:, None].to(hidden.dtype) for table in (self.cos, self.sin))
        mask = (torch.arange(capacity, device=tokens.device) <= slots[..., None])[
            :, None
        ]  # (n, 1, T, capacity)
        to = slots[:, None, :, None].expand(-1, self.config.kv_heads, -1, self.config.head_dim)
        all_keys, all_values = [], []
        for number, layer in enumerate(cast("Iterable[BackboneLayer]", self.layers)):
            query, key, value = layer.heads.split(layer.input_norm(hidden), cos, sin)
            keys = _with(cache.keys[number], key, to, in_place)
            values = _with(cache.values[number], value, to, in_place)
            hidden = layer.think(hidden, layer.heads.attend(query, keys, values, mask))
            if watch is not None:
                watch.append((query, keys))
            all_keys.append(keys)
            all_values.append(values)
        length = cache.length + (width if count is None else count)
        if in_place:
            longer = Cache(cache.keys, cache.values, length)
        else:
            longer = Cache(torch.stack(all_keys), torch.stack(all_values), length)
        normed: Tensor = self.norm(hidden)
        return normed, longer

    def logits(self, states: Tensor) -> Tensor:
        """Normed states `(..., width)` -> a logit for each token `(..., vocabulary)`; the embedding's weights."""
        return functional.linear(states, self.embedding.weight)

    def velocity(self, chunk: Tensor, time: Tensor, cache: Cache) -> Tensor:
        """The flow's field at noisy chunks `(n, H, A)` and times `(n,)` in 0 (noise) .. 1 (action).

        The chunk's tokens see each other and all of their row's cache, which stays as it is.
        """
        together = chunk.unflatten(1, (-1, self.config.steps_per_token)).flatten(2)
        steps = together.shape[1]
        near = torch.arange(steps, device=chunk.device)
        slots = cache.length[:, None] + near
        cos, sin = (table[slots][:, None].to(chunk.dtype) for table in (self.cos, self.sin))
        real = torch.arange(cache.capacity, device=chunk.device) < cache.length[:, None]
        mask = torch.cat([real, real.new_ones(len(real), steps)], dim=1)[:, None, None]  # (n, 1, 1, slots)
        angles = (time[:, None] * (2 * torch.pi / self.periods)).to(chunk.dtype)
        condition = self.time(torch.cat([angles.sin(), angles.cos()], dim=-1))
        hidden = self.action_in(together) + self.step[:steps]
        for number, layer in enumerate(cast("Iterable[ActionLayer]", self.action_layers)):
            normed, gate = layer.input_norm(hidden, condition)
            query, key, value = layer.heads.split(normed, cos, sin)
            keys = torch.cat([cache.keys[number], key], dim=2)
            values = torch.cat([cache.values[number], value], dim=2)
            mask_of_all = mask.expand(-1, -1, steps, -1)
            hidden = hidden + gate * layer.heads.attend(query, keys, values, mask_of_all)
            normed, gate = layer.mlp_norm(hidden, condition)
            hidden = hidden + gate * layer.mlp(normed)
        field: Tensor = self.action_out(self.action_norm(hidden))
        return field.reshape(chunk.shape)

    @torch.inference_mode()
    def sample(self, cache: Cache, noise: Tensor, steps: int = 8) -> Tensor:
        """Chunks `(n, H, A)` from `noise` `(n, H, A)`, by Euler steps."""
        return self.refine(cache, noise, steps)[0]

    @torch.inference_mode()
    def refine(self, cache: Cache, noise: Tensor, steps: int = 8) -> tuple[Tensor, Tensor]:
        """As `sample`; also by how much each Euler step changed the chunks, `(n, steps, H, A)`."""
        chunk, updates = noise, []
        for number in range(steps):
            time = torch.full((len(chunk),), number / steps, device=chunk.device)
            updates.append(self.velocity(chunk, time, cache) / steps)
            chunk = chunk + updates[-1]
        return chunk, torch.stack(updates, dim=1)


def _with(old: Tensor, new: Tensor, slots: Tensor, in_place: bool) -> Tensor:
    """`old` `(n, kv_heads, capacity, d)` with `new` `(n, kv_heads, T, d)` at `slots`, in it or in a longer copy."""
    if in_place:
        return old.scatter_(2, slots, new)
    return functional.pad(old, (0, 0, 0, new.shape[2])).scatter(2, slots, new)
