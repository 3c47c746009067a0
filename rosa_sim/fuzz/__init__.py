"""Hostile peers of a gateway: what they send, and what an honest robot beside them gets."""
