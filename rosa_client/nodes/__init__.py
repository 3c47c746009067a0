"""Thin ROS 2 nodes; what they decide is decided in `rosa_client/runtime`."""
