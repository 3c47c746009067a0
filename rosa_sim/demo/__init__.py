"""`make demo`: episodes on the simulated Panda, their table and their video."""
