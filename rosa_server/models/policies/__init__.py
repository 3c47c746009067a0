"""Policies of other projects, in workers with environments of their own."""
