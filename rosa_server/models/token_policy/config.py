"""The size of an autoregressive action model: its decoder, its prefix and its actions, in one class."""

from __future__ import annotations

from dataclasses import dataclass

from rosa_server.models.sizes import check_min, check_multiple


@dataclass(frozen=True)
class TokenPolicyConfig:
    """Names as in the field: a Llama decoder of `layers` blocks that answers `action_tokens` tokens (K) a frame."""

    width: int  # D
    layers: int
    heads: int
    kv_heads: int  # fewer than `heads`: grouped-query attention
    mlp: int  # hidden width of SwiGLU
    vocabulary: int
    image_tokens: int
    state_tokens: int
    prompt_tokens: int
    action_tokens: int
    rope_theta: float = 10_000.0
    rms_eps: float = 1e-5

    def __post_init__(self) -> None:
        sizes = ("width", "layers", "heads", "kv_heads", "mlp", "vocabulary", "action_tokens")
        check_min(self, 1, *sizes)
        if self.width % self.heads or self.head_dim % 2:
            raise ValueError(f"TokenPolicyConfig: {self.heads} heads do not share a width of {self.width}")
        check_multiple(self, "heads", "kv_heads")

    @property
    def head_dim(self) -> int:
        return self.width // self.heads

    @property
    def prefix(self) -> int:
        """L_P: tokens of one prefill."""
        return self.image_tokens + self.state_tokens + self.prompt_tokens

    @property
    def longest(self) -> int:
        """Tokens of a frame that are ever in the cache: the last action token is answered, not read."""
        return self.prefix + self.action_tokens - 1

    @property
    def decoder_parameters(self) -> int:
        """Weights that one pass reads: all but the embedding, of which it reads a row for each token."""
        attention = self.width * self.head_dim * (2 * self.heads + 2 * self.kv_heads)
        block = attention + 3 * self.width * self.mlp + 2 * self.width
        return self.layers * block + self.width + self.vocabulary * self.width


PANDA = TokenPolicyConfig(
    width=192,
    layers=4,
    heads=4,
    kv_heads=2,
    mlp=512,
    vocabulary=256 + 256 + 1,  # bins, words of the prompt, and padding
    image_tokens=4,
    state_tokens=1,
    prompt_tokens=8,
    action_tokens=7,
)
# Kim et al. 2024: Llama-2 7B behind 256 image tokens; 24 tokens hold its prompt "In: What action should ...? Out:".
OPENVLA_7B = TokenPolicyConfig(
    width=4096,
    layers=32,
    heads=32,
    kv_heads=32,
    mlp=11008,
    vocabulary=32064,
    image_tokens=256,
    state_tokens=0,
    prompt_tokens=24,
    action_tokens=7,
)
