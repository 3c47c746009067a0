"""Faults, chaos and long runs: what is promised against what happens."""
