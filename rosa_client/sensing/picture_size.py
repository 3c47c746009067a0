"""Pictures of another size than the robot file says: the robot told its server that size, and calibration is for it."""

from __future__ import annotations

from rosa_contract.config.cameras import CameraSpec


def wrong_size(size: tuple[int, int], spec: CameraSpec) -> str:
    """Why pictures of `size` (width, height) px are not those of `spec`, in words; empty when they are."""
    if size == (spec.width, spec.height):
        return ""
    return f"pictures are {size[0]}x{size[1]} px, the robot file says {spec.width}x{spec.height}"
