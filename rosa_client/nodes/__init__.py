"""Thin ROS 2 nodes. Decisions are taken in `rosa_client/runtime`."""
