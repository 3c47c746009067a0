"""Whether a front picture is of the kind that the task monitor was trained on: bright enough, and with the target.

A network has an answer for every picture, also for one that it has never learned to read. Two figures of a picture are
cheap and tell most of that: its mean brightness, and how many vivid pixels lie where the target lies when the task is
done. The ranges are in a small file beside the weights, with how they were derived; `python -m rosa_sim.training range`
makes it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rosa_server.models.registry import BackendError

Picture = NDArray[np.uint8]


@dataclass(frozen=True)
class PictureRange:
    """Ranges of the front camera's picture, `(height, width, 3)` RGB bytes."""

    brightness: tuple[float, float]  # of the picture's mean, 0..255: below is too dark, above is too bright
    region: tuple[
        int, int, int, int
    ]  # first row, end row, first column, end column: where a finished target lies
    saturation: float  # a pixel is vivid when (max - min) / max of its channels is above this
    darkest_vivid: (
        float  # ... and its greatest channel at least this times the picture's mean: shade is no target
    )
    target_pixels: int  # fewer vivid pixels in the region: there is no target of the kind that was trained on

    @staticmethod
    def read(path: Path) -> PictureRange:
        """Raises `BackendError` when the file does not hold a range."""
        try:
            told = json.loads(path.read_text())["range"]
            low, high = told["brightness"]
            top, bottom, left, right = told["region"]
            return PictureRange(
                (float(low), float(high)),
                (int(top), int(bottom), int(left), int(right)),
                float(told["saturation"]),
                float(told["darkest_vivid"]),
                int(told["target_pixels"]),
            )
        except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise BackendError("bad_weights", f"{path} is not a range of pictures: {error!r}") from error

    def vivid_pixels(self, front: Picture) -> int:
        """How many pixels of the region are vivid."""
        return vivid_pixels(front, self.region, self.saturation, self.darkest_vivid)

    def restrained(self, verdict: str, front: Picture) -> tuple[str, str]:
        """The verdict that may be said of this picture, and why it is another one (empty when it is in range).

        Too dark or too bright: nothing in it is to be trusted, so it is "ongoing". No vivid target in the bin: not
        "done". "failed" stands there, because a cube that fell off the table is not in the picture either.
        """
        low, high = self.brightness
        mean = float(front.mean())
        if not low <= mean <= high:
            how = "too dark" if mean < low else "too bright"
            return (
                "ongoing",
                f"out_of_range: {how}: mean brightness {mean:.0f}, expected {low:.0f} to {high:.0f}",
            )
        if verdict == "done":
            seen = self.vivid_pixels(front)
            if seen < self.target_pixels:
                return "ongoing", (
                    f"out_of_range: no vivid target in the bin: {seen} vivid pixels,"
                    f" expected at least {self.target_pixels}"
                )
        return verdict, ""


def vivid_pixels(
    front: Picture, region: tuple[int, int, int, int], saturation: float, darkest_vivid: float
) -> int:
    """As the fields of `PictureRange`. Saturation, unlike a difference of channels, does not depend on the light."""
    top, bottom, left, right = region
    part = front[top:bottom, left:right]
    brightest = part.max(axis=-1).astype(np.int32)
    spread = brightest - part.min(axis=-1)
    bright_enough = brightest >= darkest_vivid * float(front.mean())
    return int(((spread > saturation * brightest) & bright_enough).sum())
