"""What all derived H200 profiles share."""

from __future__ import annotations

import zlib

from rosa_server.scheduler.profiles.profile import Fact

HARDWARE = "NVIDIA H200"
COMMAND = "python -m scripts.h200.derive"
GPU_MEMORY_MB = 141_000.0
HARDWARE_MEMORY = Fact("memory of the GPU", f"{GPU_MEMORY_MB:g} MB", "published", "data sheet: 141 GB HBM3e")
RATE_SHARES = tuple(
    step / 10 for step in range(1, 11)
)  # ROSA 3.4.2: ten rates, 10 % to 100 % of maximum throughput


def seed_of(*parts: object) -> int:
    return zlib.crc32(repr(parts).encode())
