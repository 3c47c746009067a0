"""Recordings and running servers in other projects' viewers: Foxglove and Rerun, each where it is installed."""
