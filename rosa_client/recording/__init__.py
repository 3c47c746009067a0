"""What is kept of a run: MCAP bags of a robot's topics."""
