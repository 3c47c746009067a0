"""The size of the vision-language-action model, from the shipped one to pi0.5's, in one class."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rosa_server.models.sizes import check_min, check_multiple
from rosa_server.models.token_policy.vision_transformer import SIGLIP_SO400M, VisionConfig


@dataclass(frozen=True)
class VlaConfig:
    """A mixture of transformers: a backbone that sees and speaks, and a narrower action expert that reads its cache.

    Both have the same layers, heads and head size, so that the action expert attends to the backbone's keys and values.
    """

    width: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    mlp: int  # hidden width of the gated MLP
    vocabulary: int
    expert_width: int
    expert_mlp: int
    horizon: int  # H, steps of an action chunk
    action_dim: int  # A, numbers of one step
    cameras: int
    steps_per_token: int = 1  # of a chunk, in the action expert
    points: int = 0  # things that all cameras look for, a token each; 0: patches of `vision`
    vision: VisionConfig | None = None
    proprioception: int = 11
    longest: int = 256  # tokens of a sequence: observation, prompt and answer, or chunk
    rope_theta: float = 10_000.0
    rms_eps: float = 1e-6

    def __post_init__(self) -> None:
        sizes = ("width", "layers", "heads", "kv_heads", "mlp", "vocabulary", "expert_width", "expert_mlp")
        check_min(self, 1, *sizes, "horizon", "action_dim", "cameras", "proprioception", "steps_per_token")
        if self.head_dim < 2 or self.head_dim % 2:
            raise ValueError(f"VlaConfig.head_dim: expected an even number, got {self.head_dim}")
        check_multiple(self, "heads", "kv_heads")
        check_multiple(self, "horizon", "steps_per_token")
        if (self.points > 0) == (self.vision is not None):
            raise ValueError("VlaConfig: expected either points or vision, the two kinds of eyes")
        if self.longest < self.observation + self.horizon:
            raise ValueError(
                f"VlaConfig.longest: {self.longest} does not hold an observation of {self.observation} tokens"
                f" and a chunk of {self.horizon}"
            )

    @property
    def observation(self) -> int:
        """P: tokens of an observation, those of the pictures and one of the arm."""
        return 1 + (self.points if self.vision is None else self.cameras * self.vision.patches)

    def cache_bytes(self, tokens: int, bytes_each: int = 4) -> int:
        """Memory of the keys and values of one sequence of `tokens` tokens."""
        return 2 * self.layers * self.kv_heads * self.head_dim * tokens * bytes_each


SHIPPED = VlaConfig(
    width=128,
    layers=4,
    heads=4,
    kv_heads=1,
    head_dim=32,
    mlp=256,
    vocabulary=512,
    expert_width=128,
    expert_mlp=256,
    horizon=16,
    action_dim=4,
    cameras=2,
    steps_per_token=4,
    points=12,
)
# Black et al. 2025 and its published code: PaliGemma (Gemma 2B and SigLIP So400m/14 at 224 px, 256 tokens for each of
# three camera slots), a 300M action expert, chunks of 50 steps. There the arm's state is words of the prompt, here one
# token. `VisionTransformer` leaves its last block out, and PaliGemma runs all 27 of SigLIP's: so 28.
PI05 = VlaConfig(
    width=2048,
    layers=18,
    heads=8,
    kv_heads=1,
    head_dim=256,
    mlp=16_384,
    vocabulary=257_152,
    expert_width=1024,
    expert_mlp=4096,
    horizon=50,
    action_dim=32,
    cameras=3,
    vision=replace(SIGLIP_SO400M, depth=28),
    proprioception=32,
    longest=2048,
)
