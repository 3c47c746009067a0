"""What stands in a simulated cell and how one cell differs from another: data and MJCF, without physics."""
