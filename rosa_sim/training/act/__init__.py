"""LeRobot's ACT in the pick-and-place cell, with LeRobot's Python: `python -m rosa_sim.training.act`."""
