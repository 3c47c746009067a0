"""Starts, watches and restarts workers. Every implementation starts the same worker with the same ZeroMQ data path."""
