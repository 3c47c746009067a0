"""Simulated worlds and fleets for ROSA."""

import rosa_sim.cell.gl  # noqa: F401  (sets MUJOCO_GL before anything here imports mujoco)
