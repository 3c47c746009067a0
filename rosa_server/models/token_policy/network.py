"""The small token policy: two picture encoders, a projector, the arm's state and the prompt before a Llama decoder."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from rosa_server.models.panda.vision import Encoder
from rosa_server.models.token_policy.actions import BINS
from rosa_server.models.token_policy.config import PANDA, TokenPolicyConfig
from rosa_server.models.token_policy.decoder import Decoder, attend_causally

WORDS = 256
PAD = BINS + WORDS
CAMERAS = 2
PROPRIOCEPTION = 11


class TokenPolicy(nn.Module):
    """The prefix of a frame is its image tokens, one token of the arm's state, and the prompt's words."""

    def __init__(self, config: TokenPolicyConfig = PANDA) -> None:
        super().__init__()
        self.config = config
        self.front = Encoder()
        self.wrist = Encoder()
        tokens = config.image_tokens // CAMERAS
        self.project_front = _projector(self.front.features, tokens, config.width)
        self.project_wrist = _projector(self.wrist.features, tokens, config.width)
        self.state = nn.Linear(PROPRIOCEPTION, config.width)
        self.decoder = Decoder(config)
        self.where = nn.Linear(config.width, 5)  # training only: cube (x, y, z) and bin (x, y)

    def see(self, front: Tensor, wrist: Tensor) -> Tensor:
        """Pictures, twice `(n, 3, 96, 96)` -> features `(n, 2, 192)`."""
        return torch.stack([self.front(front), self.wrist(wrist)], dim=1)

    def prefix(self, features: Tensor, proprioception: Tensor, words: Tensor) -> Tensor:
        """Features `(n, 2, 192)`, state `(n, 11)` and words `(n, prompt_tokens)` -> embeddings `(n, L_P, width)`."""
        width = self.config.width
        parts = [
            self.project_front(features[:, 0]).unflatten(-1, (-1, width)),
            self.project_wrist(features[:, 1]).unflatten(-1, (-1, width)),
            self.state(proprioception)[:, None],
            self.decoder.embedding(words),
        ]
        return torch.cat(parts, dim=1)

    def states(self, prefix: Tensor, actions: Tensor) -> Tensor:
        """Teacher forcing: prefixes `(n, L_P, width)`, action tokens `(n, K)` -> normed states `(n, K, width)`."""
        hidden = torch.cat([prefix, self.decoder.embedding(actions[:, :-1])], dim=1)
        positions = torch.arange(hidden.shape[1], device=hidden.device)
        normed: Tensor = self.decoder(hidden, positions, attend_causally)
        return normed[:, prefix.shape[1] - 1 :]


def words_of(prompts: Sequence[str], config: TokenPolicyConfig = PANDA) -> Tensor:
    """Prompts -> token numbers `(n, prompt_tokens)`: a checksum of each word, so no vocabulary has to be shipped."""
    rows = [
        [BINS + zlib.crc32(word.encode()) % WORDS for word in prompt.lower().split()][: config.prompt_tokens]
        for prompt in prompts
    ]
    return torch.tensor([row + [PAD] * (config.prompt_tokens - len(row)) for row in rows])


def _projector(features: int, tokens: int, width: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(features, 512), nn.GELU(), nn.Linear(512, tokens * width))
