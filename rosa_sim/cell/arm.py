"""An arm in a cell as physics: a Panda that tracks joint setpoints. What the task is, its `World` knows."""

from __future__ import annotations

import mujoco
import numpy as np
from numpy.typing import ArrayLike, NDArray

from rosa_sim.cell.layout.hardware import GRIPPER_SPEED_M_S, cell, panda
from rosa_sim.cell.layout.variation import Variation
from rosa_sim.cell.scene import load_model

Vector = NDArray[np.float64]


class ArmInCell:
    """One simulated cell of a scene. Not thread-safe; one owner steps it."""

    def __init__(self, scene: str, seed: int) -> None:
        self.scene = scene
        self.layout = cell(scene)
        self.model = load_model(scene)
        self.data = mujoco.MjData(self.model)
        kp, kv = self.model.actuator_gainprm[:7, 0], -self.model.actuator_biasprm[:7, 2]
        self._servo_lag_s = kv / kp
        self._tool = self.model.site("TCP").id
        self.reset(seed)

    def reset(self, seed: int) -> None:
        """The cell of `seed`: arm at home and still, gripper open, objects at their places."""
        self.set_state(seed, Variation.of(seed, self.scene).initial_qpos(self.model))

    def set_state(self, seed: int, qpos: ArrayLike) -> None:
        """The cell of `seed` with everything standing still at `qpos` `(nq,)`."""
        q = np.asarray(qpos, dtype=np.float64)
        if q.shape != (self.model.nq,) or not np.isfinite(q).all():
            raise ValueError(
                f"ArmInCell.set_state: expected {self.model.nq} finite positions, got shape {q.shape}"
            )
        self.variation = Variation.of(seed, self.scene)
        self.variation.apply(self.model)
        mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[:] = q
        self._q_command = q[:7].copy()
        self._width_command = self._width_goal = float(q[7:9].sum())
        self.data.ctrl[:7] = self._q_command
        self.data.ctrl[7] = self._width_command / 2
        mujoco.mj_forward(self.model, self.data)

    def step(self, q_target_rad: ArrayLike, gripper_width_m: float, duration_s: float) -> None:
        """Track the setpoint `(7,)` for `duration_s`, moving there in a line from the last one.

        The servos get the setpoint's velocity too, as a real arm's joint controller does: without it they would trail
        by damping / stiffness, some 80 ms.
        """
        target = np.asarray(q_target_rad, dtype=np.float64)
        if target.shape != (7,) or not np.isfinite(target).all() or not np.isfinite(gripper_width_m):
            raise ValueError(
                f"ArmInCell.step: expected 7 finite joint positions and a width, got {q_target_rad!r}"
            )
        steps = max(1, round(duration_s / self.model.opt.timestep))
        start = self._q_command
        velocity = (target - start) / (steps * self.model.opt.timestep)
        gripper = panda().gripper
        width_goal = float(np.clip(gripper_width_m, gripper.min_m, gripper.max_m))
        self._width_goal = width_goal
        width_step = GRIPPER_SPEED_M_S * self.model.opt.timestep
        for i in range(1, steps + 1):
            self._width_command += min(max(width_goal - self._width_command, -width_step), width_step)
            self.data.ctrl[:7] = start + (target - start) * (i / steps) + velocity * self._servo_lag_s
            self.data.ctrl[7] = self._width_command / 2
            mujoco.mj_step(self.model, self.data)
        self._q_command = target

    def stay(self, duration_s: float) -> None:
        """Let `duration_s` pass with the setpoint and the width of the last step."""
        self.step(self._q_command, self._width_goal, duration_s)

    @property
    def seed(self) -> int:
        """The seed of the present scene."""
        return self.variation.seed

    @property
    def joint_position(self) -> Vector:
        """`(7,)`, rad."""
        return np.array(self.data.qpos[:7])

    @property
    def joint_velocity(self) -> Vector:
        """`(7,)`, rad/s."""
        return np.array(self.data.qvel[:7])

    @property
    def gripper_width(self) -> float:
        """Distance between the fingers, m."""
        return float(np.clip(self.data.qpos[7] + self.data.qpos[8], 0.0, 0.08))

    @property
    def tool_position(self) -> Vector:
        """Between the fingertips `(3,)`, m."""
        return np.array(self.data.site_xpos[self._tool])

    @property
    def qpos(self) -> Vector:
        """A copy of the whole state `(nq,)`, enough to render it elsewhere."""
        return np.array(self.data.qpos)
