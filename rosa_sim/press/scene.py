"""The scene in MuJoCo: any arm of a robot file, drawn from its chain, and a button on a table."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rosa_contract.config.robot import RobotSpec
from rosa_sim.bodies import DAMPING, STIFFNESS, links, numbers, servos
from rosa_sim.cell.gl import BACKEND, cannot_render  # before mujoco

import mujoco  # isort: skip

Array = NDArray[np.float64]

BUTTON_TOP_M, BUTTON_RADIUS_M, TRAVEL_M = 0.04, 0.03, 0.012
PRESSED_M = 0.006  # pressed so far, it stays pressed
X_M, Y_M = (0.35, 0.6), (-0.15, 0.3)  # where the button stands
CAMERA_M, LOOKS_AT_M = np.array([1.15, 0.1, 0.75]), np.array([0.47, 0.08, 0.03])
FOVY_DEG = {"front": 45.0, "wrist": 60.0}
ROD_M = 0.008  # its radius


def camera_axes() -> Array:
    """The front camera's axes as columns `(3, 3)`: right, up, and back from what it sees."""
    back = (CAMERA_M - LOOKS_AT_M) / np.linalg.norm(CAMERA_M - LOOKS_AT_M)
    right = np.cross([0.0, 0.0, 1.0], back)
    right /= np.linalg.norm(right)
    return np.stack([right, np.cross(back, right), back], axis=1)


def mjcf(robot: RobotSpec, button_m: ArrayLike) -> str:
    """The scene as MJCF. `button_m` `(2,)`: where the button stands."""
    [limb] = robot.limbs
    assert limb.chain is not None
    tip = limb.chain.tool_offset_m
    rod = (
        f'<geom name="rod" type="capsule" size="{ROD_M}" fromto="0 0 0 0 0 {tip - ROD_M}" contype="1"'
        ' conaffinity="1" mass="0.05" rgba="0.2 0.2 0.25 1"/>'
        f'<camera name="wrist" pos="0.08 0 0" xyaxes="0 1 0 1 0 0" fovy="{FOVY_DEG["wrist"]}"/>'
    )
    axes = camera_axes()
    x, y = np.asarray(button_m, np.float64)
    half = (BUTTON_TOP_M - TRAVEL_M) / 2
    return f"""
<mujoco model="press">
  <compiler angle="radian"/>
  <option timestep="0.002" integrator="implicitfast"/>
  <visual><quality offsamples="0"/><global offwidth="640" offheight="480"/></visual>
  <default><geom contype="0" conaffinity="0"/></default>
  <worldbody>
    <light pos="0.3 0 2" dir="0 0 -1" diffuse="0.8 0.8 0.8" ambient="0.3 0.3 0.3"/>
    <geom type="box" size="0.8 0.8 0.01" pos="0.3 0 -0.01" rgba="0.55 0.5 0.45 1"/>
    <camera name="front" pos="{numbers(CAMERA_M)}" xyaxes="{numbers(axes[:, 0])} {numbers(axes[:, 1])}"
      fovy="{FOVY_DEG["front"]}"/>
    {links(robot, limb, rod)}
    <body name="button" pos="{x:.6g} {y:.6g} {BUTTON_TOP_M - half}">
      <joint name="button" type="slide" axis="0 0 1" range="{-TRAVEL_M} 0" limited="true" stiffness="300"
        damping="3"/>
      <geom name="cap" type="cylinder" size="{BUTTON_RADIUS_M} {half}" contype="1" conaffinity="1" mass="0.02"
        rgba="0.9 0.05 0.05 1"/>
    </body>
  </worldbody>
  <actuator>{servos(robot.joints)}</actuator>
</mujoco>"""


class PressScene:
    """One arm and one button. `step` follows setpoints; `pictures` is what its cameras see. One owner; `close()` it."""

    def __init__(self, robot: RobotSpec, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.button_m = np.array([rng.uniform(*X_M), rng.uniform(*Y_M)])
        self._model = mujoco.MjModel.from_xml_string(mjcf(robot, self.button_m))
        self._data = mujoco.MjData(self._model)
        self._dof = len(robot.joints)
        self._data.qpos[: self._dof] = robot.home_rad
        self._told = np.array(robot.home_rad)
        self._data.ctrl[:] = self._told
        mujoco.mj_forward(self._model, self._data)
        self._size = {name: (one.width, one.height) for name, one in robot.cameras.items()}
        self._renderers: dict[tuple[int, int], Any] = {}
        self.pressed = False

    def step(self, q_rad: Array, duration_s: float) -> None:
        """Track the setpoint `(dof,)`, moving there in a line from the last one."""
        steps = max(1, round(duration_s / self._model.opt.timestep))
        start, self._told = self._told, np.array(q_rad)
        ahead = (self._told - start) / duration_s * (DAMPING / STIFFNESS)
        for number in range(1, steps + 1):
            self._data.ctrl[:] = start + (self._told - start) * (number / steps) + ahead
            mujoco.mj_step(self._model, self._data)
        if not self.pressed and -self._data.joint("button").qpos[0] > PRESSED_M:
            self._lights_up()

    def stay(self, duration_s: float) -> None:
        """Time passes at the last setpoint."""
        self.step(self._told, duration_s)

    def _lights_up(self) -> None:
        self.pressed = True
        self._model.geom("cap").rgba[:] = (0.1, 0.8, 0.2, 1.0)

    @property
    def qpos(self) -> Array:
        """Its whole state: the positions of the model, then whether the button was pressed."""
        return np.append(self._data.qpos, float(self.pressed))

    def show(self, qpos: Array) -> None:
        """Stand as `qpos` says, to be drawn. Raises `ValueError` for the state of another scene."""
        if qpos.shape != (self._model.nq + 1,) or not np.isfinite(qpos).all():
            raise ValueError(f"expected {self._model.nq + 1} finite numbers, got shape {qpos.shape}")
        self._data.qpos[:] = qpos[:-1]
        mujoco.mj_forward(self._model, self._data)
        if qpos[-1] and not self.pressed:
            self._lights_up()

    @property
    def joint_velocity(self) -> Array:
        """`(dof,)` rad/s."""
        return np.array(self._data.qvel[: self._dof])

    @property
    def joint_position(self) -> Array:
        """`(dof,)` rad."""
        return np.array(self._data.qpos[: self._dof])

    @property
    def tip_m(self) -> Array:
        """The rod's end `(3,)`, m."""
        return np.array(self._data.site("tool").xpos)

    def pictures(self) -> dict[str, NDArray[np.uint8]]:
        """Camera -> `(height, width, 3)` RGB."""
        if not BACKEND:
            raise cannot_render("no OpenGL library")
        found = {}
        for name, (width, height) in self._size.items():
            if (width, height) not in self._renderers:
                try:
                    self._renderers[width, height] = mujoco.Renderer(self._model, height, width)
                except Exception as error:
                    raise cannot_render(error) from error
            renderer = self._renderers[width, height]
            renderer.update_scene(self._data, camera=name)
            renderer.scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = 0
            renderer.scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = 0
            found[name] = renderer.render().copy()
        return found

    def close(self) -> None:
        """Free the OpenGL contexts."""
        for renderer in self._renderers.values():
            renderer.close()
        self._renderers.clear()
