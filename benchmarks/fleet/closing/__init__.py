"""The parts of closed_loop.py."""
