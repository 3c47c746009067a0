"""What one GPU does with one model: measured profiles, and what follows from them for a load and an SLO."""
