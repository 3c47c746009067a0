"""Which OpenGL MuJoCo renders with. Imported before mujoco, which reads `MUJOCO_GL` when it is imported."""

from __future__ import annotations

import ctypes.util
import os

_PACKAGES = {"egl": "libegl1 libgl1-mesa-dri", "osmesa": "libosmesa6"}


def choose_backend() -> str:
    """Sets `MUJOCO_GL` to what this machine has unless it is set: egl, else osmesa. Returns it, or ""."""
    chosen = os.environ.get("MUJOCO_GL", "")
    if not chosen:
        chosen = next(
            (name for name, lib in (("egl", "EGL"), ("osmesa", "OSMesa")) if ctypes.util.find_library(lib)),
            "",
        )
        if chosen:
            os.environ["MUJOCO_GL"] = chosen
    return chosen


def cannot_render(why: object) -> RuntimeError:
    """The error that says what to install."""
    return RuntimeError(
        f"cannot render off screen (MUJOCO_GL={BACKEND or 'unset: neither EGL nor OSMesa was found'}): {why}. "
        f"Install one of them: apt-get install {_PACKAGES['egl']}  (or: apt-get install {_PACKAGES['osmesa']})"
    )


BACKEND = choose_backend()
