"""An exhaustive search of every state that the robot's core can reach: `python -m rosa_sim.explore`."""
