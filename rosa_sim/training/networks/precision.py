"""How precisely a network is trained on this machine."""

from __future__ import annotations

import torch


def mixed(device: str = "cpu") -> torch.autocast:
    """bfloat16 where the device computes with it, which takes half as long as float32. A CPU that does not (one with
    AVX2 alone) would imitate it, and take nine times as long as float32."""
    computes = device != "cpu" or torch.cpu._is_avx512_bf16_supported()
    return torch.autocast(device, torch.bfloat16, enabled=computes)
