"""Simulated arms."""
