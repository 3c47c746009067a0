"""Before any test imports mujoco, which reads once which OpenGL to render with."""

import rosa_sim.cell.gl  # noqa: F401  (imported for what it sets)
