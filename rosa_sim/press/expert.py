"""A scripted expert as a model: it looks for the red button in the picture and answers steps of the tool, in mm. As a
monitor it says whether the button has lit up."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rosa_contract.config.tasks import MONITOR
from rosa_server.models.backend import InputSpec, ModelInput, ModelOutput, check_batch
from rosa_sim.press.scene import BUTTON_TOP_M, CAMERA_M, FOVY_DEG, camera_axes

Array = NDArray[np.float64]

HEIGHT, WIDTH, ROWS = 240, 320, 8
STEP_MM = 8.0  # the longest step of a row
ABOVE_M, BELOW_M, ALIGNED_M = 0.05, 0.016, 0.008
MIN_PIXELS = 12  # of the button, to know where it is


class PressExpert:
    """Reach above the button, then go down. It remembers nothing."""

    input_spec = InputSpec({"scene": (HEIGHT, WIDTH)}, {"tool": 3})
    max_batch = 8
    memory_mb = 1.0

    def load(self) -> None:
        """There are no weights."""

    def warm_up(self) -> None:
        """Nothing is slower the first time."""

    def infer(self, batch: Sequence[ModelInput]) -> list[ModelOutput]:
        check_batch(self.input_spec, batch, self.max_batch)
        return [self._answer(one) for one in batch]

    def _answer(self, one: ModelInput) -> ModelOutput:
        if one.component == MONITOR:
            return ModelOutput(verdict="done" if lit(one.images["scene"]) else "ongoing")
        return ModelOutput({"steps": self._steps(one).astype(np.float32)})

    def _steps(self, one: ModelInput) -> Array:
        """`(ROWS, 6)`: mm and rad."""
        steps = np.zeros((ROWS, 6))
        tool_m = np.asarray(one.state["tool"], np.float64) / 1000
        button_m = seen_button(one.images["scene"])
        if button_m is None:  # pressed, or hidden: stay
            return steps
        aside = float(np.linalg.norm(button_m - tool_m[:2]))
        height_m = BUTTON_TOP_M + (ABOVE_M if aside > ALIGNED_M else -BELOW_M)
        way_mm = (np.array([*button_m, height_m]) - tool_m) * 1000
        share = min(1.0, ROWS * STEP_MM / max(float(np.linalg.norm(way_mm)), 1e-9))
        steps[:, :3] = way_mm * share / ROWS
        return steps

    def close(self) -> None:
        """There is nothing to free."""


def lit(picture: NDArray[np.uint8]) -> bool:
    """Whether the button shows green, as it does once it was pressed."""
    red, green, blue = (picture[..., one].astype(np.int16) for one in range(3))
    return int(((green > 90) & (green > 2 * red) & (green > 2 * blue)).sum()) >= MIN_PIXELS


def seen_button(picture: NDArray[np.uint8]) -> Array | None:
    """Where the button stands `(2,)` m, from the middle of what is red `(HEIGHT, WIDTH, 3)`; None where little is."""
    red, green, blue = (picture[..., one].astype(np.int16) for one in range(3))
    rows, columns = np.nonzero((red > 90) & (red > 2 * green) & (red > 2 * blue))
    if len(rows) < MIN_PIXELS:
        return None
    focal_px = HEIGHT / 2 / math.tan(math.radians(FOVY_DEG["front"]) / 2)
    u, v = columns.mean() + 0.5 - WIDTH / 2, rows.mean() + 0.5 - HEIGHT / 2
    ray = camera_axes() @ np.array([u / focal_px, -v / focal_px, -1.0])
    place: Array = CAMERA_M + ray * (BUTTON_TOP_M * 0.75 - CAMERA_M[2]) / ray[2]
    return place[:2]
