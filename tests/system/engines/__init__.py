"""Engines behind a real gateway: several robots share one model."""
