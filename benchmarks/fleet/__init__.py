"""Fleets: executed against predicted, against the paper's systems, up to 10,000 robots."""
