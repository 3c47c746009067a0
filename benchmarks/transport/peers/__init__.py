"""Ways to carry an observation to a policy server and an action chunk back, all with the same two calls.

Each module has `serve(address)`, which runs a server with a null policy until it is ended, and `Client(address, name)`
with `call(observation) -> actions (50, 8) float32` and `close()`. Every server turns the images into arrays before it
answers.
"""

from __future__ import annotations

import numpy as np

CAMERAS = ("base", "wrist")
SIZE = 224  # px
STATE = 8
ACTIONS = np.zeros((50, 8), np.float32)


def observation() -> dict[str, np.ndarray]:
    """Two 224x224 RGB images of shaded discs (compressible like a real scene) and a state of 8 values."""
    y, x = np.mgrid[0:SIZE, 0:SIZE]
    images = {}
    for index, camera in enumerate(CAMERAS):
        disc = ((x - 90 - 40 * index) ** 2 + (y - 120) ** 2 < 50**2) * 90
        images[camera] = (
            np.stack([x // 2 + disc, y // 2 + disc, (x + y) // 4], axis=-1).clip(0, 255).astype(np.uint8)
        )
    return {**images, "state": np.linspace(-1, 1, STATE).astype(np.float32)}


def null_policy(seen: dict[str, np.ndarray]) -> np.ndarray:
    """Check that the observation arrived whole and answer at once."""
    for camera in CAMERAS:
        if seen[camera].shape != (SIZE, SIZE, 3):
            raise ValueError(f"{camera}: expected {(SIZE, SIZE, 3)}, got {seen[camera].shape}")
    return ACTIONS
