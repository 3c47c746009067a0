"""Labelled looks at the simulated cells: what is recorded, what is done to the cells, and what is said about them."""
