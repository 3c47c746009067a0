"""A vision-language-action network whose passes are CUDA graphs, for every way alike: a gain must not be launches.

A graph is recorded for each shape when it first occurs, in the rounds that do not count. On a CPU a pass is the pass
itself, on copies of its inputs, so that a test sees whether anything is lost on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from benchmarks.engines.captured import Captured
from rosa_server.engines.kv_sharing.cache import Cache
from rosa_server.models.vla.network import VlaNetwork

MAX_GRAPHS = 400  # each keeps its inputs; further shapes run as they are


class GraphedNetwork:
    """A `PrefixNetwork`."""

    def __init__(self, network: VlaNetwork) -> None:
        self._network, self.config = network, network.config
        self._graphs: dict[tuple[Any, ...], Captured[Any]] = {}
        # One memory for all graphs: each answer is copied before the next call.
        self._pool = torch.cuda.graph_pool_handle() if network.embedding.weight.is_cuda else None

    def cache_bytes(self, tokens: int) -> int:
        return self._network.cache_bytes(tokens)

    def observe(self, pictures: Sequence[Tensor], told: Tensor) -> Tensor:
        def run(*given: Tensor) -> Tensor:
            return self._network.observe(given[:-1], given[-1])

        seen: Tensor = self._run("observe", run, *pictures, told).clone()
        return seen

    def prefill(self, embeddings: Tensor) -> Cache:
        def run(given: Tensor) -> tuple[Tensor, ...]:
            made = self._network.prefill(given)
            return made.keys, made.values, made.length

        return Cache(*(one.clone() for one in self._run("prefill", run, embeddings)))

    def extend(
        self, cache: Cache, tokens: Tensor, count: Tensor | None = None, in_place: bool = False
    ) -> tuple[Tensor, Cache]:
        """As the network; a cache that is extended in place is the one that was given."""
        if count is None or not in_place:
            return self._network.extend(cache, tokens, count, in_place)
        if int(cache.length.max()) + tokens.shape[1] > cache.capacity:
            raise ValueError(f"extend: no room for {tokens.shape[1]} more tokens in {cache.capacity} slots")

        def run(
            keys: Tensor, values: Tensor, length: Tensor, tokens: Tensor, count: Tensor
        ) -> tuple[Tensor, ...]:
            states, longer = self._network.extend(
                Cache(keys, values, length), tokens, count, in_place=True, fits=True
            )
            return states, longer.keys, longer.values, longer.length

        given = (cache.keys, cache.values, cache.length, tokens, count)
        states, keys, values, length = self._run("extend", run, *given)
        cache.keys.copy_(keys)
        cache.values.copy_(values)
        return states.clone(), Cache(cache.keys, cache.values, length.clone())

    def logits(self, states: Tensor) -> Tensor:
        return self._network.logits(states)

    def refine(self, cache: Cache, noise: Tensor, steps: int) -> tuple[Tensor, Tensor]:
        def run(keys: Tensor, values: Tensor, length: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
            return self._network.refine(Cache(keys, values, length), noise, steps)

        given = (cache.keys, cache.values, cache.length, noise)
        chunks, updates = self._run(f"refine {steps}", run, *given)
        return chunks.clone(), updates.clone()

    def _run(self, name: str, function: Callable[..., Any], *given: Tensor) -> Any:
        key = (name, *(tuple(one.shape) for one in given))
        if key not in self._graphs:
            if len(self._graphs) >= MAX_GRAPHS:
                return function(*given)
            self._graphs[key] = Captured(function, given, self._pool)
        return self._graphs[key](*given)
