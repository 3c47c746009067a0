"""Cameras of the simulated cell, rendered off screen without a GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rosa_sim.cell.gl import BACKEND, cannot_render  # before mujoco

import mujoco  # isort: skip

from rosa_sim.cell.layout.hardware import PICK_PLACE
from rosa_sim.cell.layout.variation import Change, Variation, unchanged
from rosa_sim.cell.scene import load_model

Image = NDArray[np.uint8]
CAMERAS = ("front", "wrist", "overview")


class SceneRenderer:
    """Renders states of a `World`, in this or another process. One instance per thread; `close()` it."""

    def __init__(
        self,
        cameras: Mapping[str, tuple[int, int]],
        change: Change = unchanged,
        scene: str = PICK_PLACE,
    ) -> None:
        """`cameras`: name -> (width, height) in pixels, names from `CAMERAS`.

        `change`: how every cell looks different from what its seed says.
        """
        unknown = sorted(set(cameras) - set(CAMERAS))
        if unknown:
            raise ValueError(f"SceneRenderer: unknown cameras {unknown}; the cell has {', '.join(CAMERAS)}")
        self._cameras = dict(cameras)
        self._model = load_model(scene)
        self._scene = scene
        self._data = mujoco.MjData(self._model)
        self._change = change
        self._seed: int | None = None
        self._renderers: dict[tuple[int, int], Any] = {}
        if not BACKEND:
            raise cannot_render("no OpenGL library")
        try:
            for width, height in sorted(set(self._cameras.values())):
                self._renderers[(width, height)] = mujoco.Renderer(self._model, height=height, width=width)
        except Exception as error:
            self.close()
            raise cannot_render(error) from error

    @property
    def model(self) -> mujoco.MjModel:
        """The model as it was rendered last."""
        return self._model

    @property
    def data(self) -> mujoco.MjData:
        """The kinematics of what was rendered last."""
        return self._data

    def render(
        self, seed: int, qpos: ArrayLike, touch_up: Callable[[mujoco.MjModel], None] = lambda model: None
    ) -> dict[str, Image]:
        """Each camera's picture `(height, width, 3)` RGB of the cell of `seed` at `qpos` `(nq,)`.

        `touch_up` may write into the model what the next call for this seed shall not undo.
        """
        q = np.asarray(qpos, dtype=np.float64)
        if q.shape != (self._model.nq,):
            raise ValueError(
                f"SceneRenderer.render: expected qpos of shape ({self._model.nq},), got {q.shape}"
            )
        if seed != self._seed:
            self._change(Variation.of(seed, self._scene)).apply(self._model)
            self._seed = seed
        touch_up(self._model)
        self._data.qpos[:] = q
        mujoco.mj_kinematics(self._model, self._data)
        mujoco.mj_camlight(self._model, self._data)
        pictures: dict[str, Image] = {}
        for name, size in self._cameras.items():
            renderer = self._renderers[size]
            renderer.update_scene(self._data, camera=name)
            # update_scene sets them anew each time; each doubles the work on a machine without a GPU.
            renderer.scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = 0
            renderer.scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = 0
            pictures[name] = renderer.render().copy()
        return pictures

    def close(self) -> None:
        """Frees the OpenGL contexts."""
        for renderer in self._renderers.values():
            renderer.close()
        self._renderers.clear()
