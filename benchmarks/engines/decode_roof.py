"""The least time that a machine needs for a pass of a decoder, from what it reads and multiplies per second."""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch
from torch import Tensor

from rosa_server.models.token_policy.config import TokenPolicyConfig
from rosa_server.models.token_policy.decoder import Decoder

CHUNKS = 2  # of a prefix, where prefill is chunked


@dataclass(frozen=True)
class Roof:
    """What the machine can do at most, measured: bytes read and multiplied numbers per second."""

    bytes_s: float
    flops_s: float

    def better(self, other: Roof) -> Roof:
        """The best of both."""
        return Roof(max(self.bytes_s, other.bytes_s), max(self.flops_s, other.flops_s))

    def pass_s(self, decoder: Decoder, config: TokenPolicyConfig, tokens: int, keys: int) -> float:
        """The least time of a pass: reading the weights and keys, or multiplying, whichever takes longer."""
        size = decoder.head.weight.element_size()
        weights = config.decoder_parameters
        cache = 2 * config.layers * config.kv_heads * config.head_dim * keys
        return max((weights + cache) * size / self.bytes_s, 2 * weights * tokens / self.flops_s)

    def frame_s(self, way: str, decoder: Decoder, config: TokenPolicyConfig) -> float:
        """The least time of a frame in this way."""
        k, prefix = config.action_tokens, config.prefix
        if way == "pipelined":
            return self.pass_s(decoder, config, prefix + k - 1, k * (prefix + k // 2))
        prefill = self.pass_s(decoder, config, prefix, prefix)
        if way == "continuous":
            return prefill + self.pass_s(decoder, config, k, k * (prefix + k // 2)) * (k - 1) / k
        if way == "chunked":
            decoding = (k - 1) / CHUNKS  # frames that share each of its passes
            keys = round(decoding * (prefix + k // 2)) + prefix
            return CHUNKS * self.pass_s(decoder, config, round(prefix / CHUNKS + decoding), keys)
        n = {"batch K": k, "batch 2K": 2 * k}.get(way, 1)
        first = self.pass_s(decoder, config, n * prefix, n * prefix)
        return (first + (k - 1) * self.pass_s(decoder, config, n, n * (prefix + k // 2))) / n


def measure_roof(decoder: Decoder, device: torch.device) -> Roof:
    """The best of several runs of a large product with one vector, and with a large matrix."""
    dtype = decoder.head.weight.dtype
    rows, columns = (16384, 8192) if device.type == "cuda" else (8192, 4096)
    matrix = torch.randn(rows, columns, device=device, dtype=dtype)
    vector = torch.randn(1, columns, device=device, dtype=dtype)
    small = matrix[:2048] if device.type == "cpu" else matrix
    other = torch.randn(512 if device.type == "cpu" else 8192, columns, device=device, dtype=dtype)

    def best_s(left: Tensor, right: Tensor) -> float:
        times = []
        for _ in range(8):
            wait_for(device)
            began_s = time.perf_counter()
            torch.nn.functional.linear(left, right)
            wait_for(device)
            times.append(time.perf_counter() - began_s)
        return min(times)

    read = matrix.numel() * matrix.element_size() / best_s(vector, matrix)
    return Roof(read, 2 * small.numel() * len(other) / best_s(other, small))


def wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
