"""Accelerators that a backend may use."""
