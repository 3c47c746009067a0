"""Every state that the robot's core can come to: an exhaustive search. `python -m rosa_sim.explore` runs it."""
