from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf

import pytest
import torch

from rosa_server.engines.kv_sharing.passes import Grammar, PassCall
from rosa_server.engines.kv_sharing.turns import Kind
from rosa_server.models.vla.config import SHIPPED
from rosa_server.models.vla.network import VlaNetwork

# 33 tokens of an observation: the memories in these tests are multiples of it.
SMALL = replace(
    SHIPPED,
    width=32,
    layers=2,
    head_dim=8,
    mlp=48,
    vocabulary=40,
    expert_width=24,
    expert_mlp=32,
    longest=96,
    points=32,
)
STOP = 0


@pytest.fixture(scope="session")
def network() -> VlaNetwork:
    torch.set_num_threads(1)  # matrices so small gain nothing from a second one
    torch.manual_seed(5)
    made = VlaNetwork(SMALL).eval().requires_grad_(False)
    for name, weight in made.named_parameters():
        if "modulate" in name:  # zeros at first: the flow's time would not matter
            weight.normal_(0.0, 0.1)
        elif (
            name.startswith("layers.") and weight.dim() > 1
        ):  # else every word would follow from the last one alone
            weight.normal_(0.0, 0.6)
    return made


@pytest.fixture(scope="session")
def call() -> Callable[..., PassCall]:
    """Calls by (observation seed, own seed); equal seeds give equal tensors."""

    def make(
        seen: int,
        kind: Kind,
        own: int = 0,
        longest: int = 6,
        observation: str = "",
        deadline_s: float = inf,
        grammar: Grammar | None = None,
    ) -> PassCall:
        eyes, mind = torch.Generator().manual_seed(seen), torch.Generator().manual_seed(1000 + own)
        pictures = [torch.rand(1, 3, 24, 24, generator=eyes) * 2 - 1 for _ in range(SMALL.cameras)]
        told = torch.randn(1, SMALL.proprioception, generator=eyes)
        prompt = tuple(torch.randint(1, SMALL.vocabulary, (1 + own % 5,), generator=mind).tolist())
        noise = torch.randn(1, SMALL.horizon, SMALL.action_dim, generator=mind) if kind == "action" else None
        return PassCall(
            kind, pictures, told, prompt, longest, noise, 3, observation, deadline_s, grammar=grammar
        )

    return make
