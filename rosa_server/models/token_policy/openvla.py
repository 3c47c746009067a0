"""OpenVLA as published (Kim et al. 2024): fused DINOv2 and SigLIP, a projector of three layers, Llama-2; and its bins.

The weights are not shipped, and nothing here was run with them: sizes, names and arithmetic are tested on small random
checkpoints of the same layout.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn
from torch.nn import functional

from rosa_server.models.token_policy.config import OPENVLA_7B, TokenPolicyConfig
from rosa_server.models.token_policy.decoder import Decoder
from rosa_server.models.token_policy.llama_weights import Fill, copy_tensors, llama_fills
from rosa_server.models.token_policy.vision_transformer import (
    DINOV2_LARGE,
    SIGLIP_SO400M,
    VisionBlock,
    VisionConfig,
    VisionTransformer,
)

TEXT_TOKENS = 32_000  # Llama's own; the embedding is padded to a multiple of 64 beyond them
BINS = 256


class OpenVla(nn.Module):
    """Pictures and prompt tokens in, the prefix of the decoder out."""

    def __init__(
        self,
        config: TokenPolicyConfig = OPENVLA_7B,
        dino: VisionConfig = DINOV2_LARGE,
        siglip: VisionConfig = SIGLIP_SO400M,
    ) -> None:
        super().__init__()
        if not config.image_tokens == dino.patches == siglip.patches:
            raise ValueError(
                f"OpenVla: {config.image_tokens} image tokens, but {dino.patches} and {siglip.patches} patches"
            )
        self.config = config
        self.dino, self.siglip = VisionTransformer(dino), VisionTransformer(siglip)
        seen = dino.width + siglip.width
        self.fc1 = nn.Linear(seen, 4 * seen)
        self.fc2 = nn.Linear(4 * seen, config.width)
        self.fc3 = nn.Linear(config.width, config.width)
        self.decoder = Decoder(config)

    def prefix(self, for_dino: Tensor, for_siglip: Tensor, prompt: Tensor) -> Tensor:
        """The picture normalised for each encoder `(n, 3, 224, 224)` and prompt tokens `(n, prompt_tokens)`, the first
        of them the beginning of the sequence -> `(n, L_P, width)`: that first token, the patches, the prompt."""
        patches = torch.cat([self.dino(for_dino), self.siglip(for_siglip)], dim=-1)
        projected = self.fc3(functional.gelu(self.fc2(functional.gelu(self.fc1(patches)))))
        words = self.decoder.embedding(prompt)
        return torch.cat([words[:, :1], projected, words[:, 1:]], dim=1)


def load_openvla(network: OpenVla, path: Path) -> None:
    """Fill `network` from a folder of safetensors files. Raises `BackendError` naming the tensor that does not fit."""
    fills = [
        *_vision_fills(network.dino, "vision_backbone.featurizer."),
        *_vision_fills(network.siglip, "vision_backbone.fused_featurizer."),
        *(
            fill
            for name in ("fc1", "fc2", "fc3")
            for fill in _linear(getattr(network, name), f"projector.{name}")
        ),
        *llama_fills(network.decoder, network.config, "language_model."),
    ]
    copy_tensors(path, fills)


def actions_of(
    tokens: NDArray[np.integer],
    low: ArrayLike,
    high: ArrayLike,
    scaled: ArrayLike | None = None,
    text_tokens: int = TEXT_TOKENS,
) -> NDArray[np.float64]:
    """Tokens `(n, columns)` -> actions `(n, columns)`: the last 256 text tokens are bins over -1 .. 1, counted from the
    end, and `low`, `high` `(columns,)` are the 1st and 99th percentile of the data set that the model was tuned on.

    `scaled` `(columns,)`: which of them these percentiles are for; default: all but the last, the gripper, which is a
    share already.
    """
    edges = np.linspace(-1.0, 1.0, BINS)
    middles = (edges[:-1] + edges[1:]) / 2
    normalised = middles[np.clip(text_tokens - np.asarray(tokens) - 1, 0, BINS - 2)]
    lowest, highest = np.asarray(low, np.float64), np.asarray(high, np.float64)
    which = np.arange(len(lowest)) < len(lowest) - 1 if scaled is None else np.asarray(scaled, bool)
    actions: NDArray[np.float64] = np.where(
        which, (normalised + 1.0) / 2.0 * (highest - lowest) + lowest, normalised
    )
    return actions


def _vision_fills(encoder: VisionTransformer, at: str) -> list[Fill]:
    """timm's names, with OpenVLA's `scale_factor` for what timm calls gamma."""
    config = encoder.config
    fills: list[Fill] = [
        *_linear(encoder.patch, f"{at}patch_embed.proj"),
        (encoder.positions, [(f"{at}pos_embed", 1)]),
    ]
    if encoder.class_token is not None:
        fills.append((encoder.class_token, [(f"{at}cls_token", 1)]))
    if config.registers:
        fills.append((encoder.registers, [(f"{at}reg_token", 1)]))
    for number, block in enumerate(encoder.blocks):
        assert isinstance(block, VisionBlock)
        here = f"{at}blocks.{number}."
        for part, name in (
            (block.norm1, "norm1"),
            (block.qkv, "attn.qkv"),
            (block.output, "attn.proj"),
            (block.norm2, "norm2"),
            (block.fc1, "mlp.fc1"),
            (block.fc2, "mlp.fc2"),
        ):
            fills += _linear(part, here + name)
        if block.scale1 is not None and block.scale2 is not None:
            fills.append((block.scale1, [(f"{here}ls1.scale_factor", config.width)]))
            fills.append((block.scale2, [(f"{here}ls2.scale_factor", config.width)]))
    return fills


def _linear(module: nn.Linear | nn.LayerNorm | nn.Conv2d, name: str) -> list[Fill]:
    assert module.bias is not None
    return [
        (module.weight, [(f"{name}.weight", module.weight.shape[0])]),
        (module.bias, [(f"{name}.bias", module.bias.shape[0])]),
    ]
