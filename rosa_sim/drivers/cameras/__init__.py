"""Simulated cameras."""
