"""The commands of `rosa` for the robot's side, one per file. What they need is imported when they run."""
