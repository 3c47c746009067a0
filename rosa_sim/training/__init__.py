"""Makes the two shipped models from nothing: `python -m rosa_sim.training all`."""
