"""Starts robots where there is no `ros2 launch`: the nodes, their processes, and what it means when one ends."""
