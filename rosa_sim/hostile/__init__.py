"""Attacks on a live server beside well-behaved robots: what was tried, what is promised, what happened."""
