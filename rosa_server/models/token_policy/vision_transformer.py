"""A vision transformer (Dosovitskiy et al. 2021) as OpenVLA uses two of them: DINOv2 with registers, and SigLIP.

Its answer is what leaves the block before the last, without the final norm (Karamcheti et al. 2024, section 3), so the
last block and what follows it are not built.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

NORM_EPS = 1e-6


@dataclass(frozen=True)
class VisionConfig:
    """One encoder. `depth` counts the published blocks; the last is left out."""

    width: int
    depth: int
    heads: int
    mlp: int
    patch: int = 14
    image: int = 224
    registers: int = 0
    class_token: bool = False  # DINOv2: a class token and registers before the patches, and scaled residuals

    @property
    def patches(self) -> int:
        return (self.image // self.patch) ** 2


DINOV2_LARGE = VisionConfig(width=1024, depth=24, heads=16, mlp=4096, registers=4, class_token=True)
SIGLIP_SO400M = VisionConfig(width=1152, depth=27, heads=16, mlp=4304)


class VisionBlock(nn.Module):
    """Attention and MLP, each with a norm before and a residual around it."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.norm1 = nn.LayerNorm(config.width, eps=NORM_EPS)
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.output = nn.Linear(config.width, config.width)
        self.norm2 = nn.LayerNorm(config.width, eps=NORM_EPS)
        self.fc1 = nn.Linear(config.width, config.mlp)
        self.fc2 = nn.Linear(config.mlp, config.width)
        self.scale1 = nn.Parameter(torch.ones(config.width)) if config.class_token else None
        self.scale2 = nn.Parameter(torch.ones(config.width)) if config.class_token else None

    def forward(self, hidden: Tensor) -> Tensor:
        """`(n, tokens, width)` -> the same shape."""
        split = self.qkv(self.norm1(hidden)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(split[0], split[1], split[2])
        attended: Tensor = self.output(seen.transpose(1, 2).flatten(2))
        hidden = hidden + (attended if self.scale1 is None else attended * self.scale1)
        thought: Tensor = self.fc2(functional.gelu(self.fc1(self.norm2(hidden))))
        return hidden + (thought if self.scale2 is None else thought * self.scale2)


class VisionTransformer(nn.Module):
    """Pictures `(n, 3, image, image)`, normalised as the encoder was trained -> patches `(n, patches, width)`."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.config = config
        self.patch = nn.Conv2d(3, config.width, config.patch, stride=config.patch)
        self.positions = nn.Parameter(torch.zeros(1, config.patches, config.width))
        self.class_token = nn.Parameter(torch.zeros(1, 1, config.width)) if config.class_token else None
        self.registers = nn.Parameter(torch.zeros(1, config.registers, config.width))
        self.blocks = nn.ModuleList(VisionBlock(config) for _ in range(config.depth - 1))

    def forward(self, pictures: Tensor) -> Tensor:
        hidden: Tensor = self.patch(pictures).flatten(2).transpose(1, 2) + self.positions
        before = [self.registers] if self.class_token is None else [self.class_token, self.registers]
        hidden = torch.cat([*(one.expand(len(hidden), -1, -1) for one in before), hidden], dim=1)
        for block in self.blocks:
            hidden = block(hidden)
        return hidden[:, -self.config.patches :]
