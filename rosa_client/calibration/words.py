"""A calibration's result in words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rosa_client.calibration.detection import Missed
from rosa_client.calibration.hand_eye import HandEyeResult
from rosa_client.calibration.lens import LensResult


def lens_lines(camera: str, result: LensResult) -> list[str]:
    """The lens, how sure it is, and which pictures were left out."""
    lens, (width, height) = result.intrinsics, result.size
    bend = ", ".join(f"{value:.4f}" for value in lens.distortion)
    return [
        f"{camera}: {len(result.used)} pictures of {width}x{height} px, residual {result.rms_px:.2f} px, "
        f"board seen in {100 * result.coverage:.0f} % of the picture",
        f"fx {lens.fx:.1f} +- {result.doubt_px[0]:.1f}, fy {lens.fy:.1f} +- {result.doubt_px[1]:.1f}, "
        f"cx {lens.cx:.1f}, cy {lens.cy:.1f} px, distortion {bend}",
        *_left_out(result.rejected),
    ]


def place_lines(camera: str, parent: str, result: HandEyeResult, missed: Sequence[Missed]) -> list[str]:
    """The place, how well single pictures agree, and which pictures were left out."""
    place = ", ".join(f"{1000 * value:.1f}" for value in result.mount[:3, 3])
    return [
        f"{camera} in {parent}: {place} mm; {len(result.used)} pictures, residual {result.rms_px:.2f} px",
        f"single pictures place the board within {1000 * result.spread_m:.2f} mm and "
        f"{np.degrees(result.spread_rad):.2f} degrees; its print is {100 * result.scale:.2f} % of its described size",
        *_left_out([*missed, *result.rejected]),
    ]


def _left_out(missed: Sequence[Missed]) -> list[str]:
    return [f"left out: {one.name}: {one.reason}" for one in missed]
