"""MCAP recordings of robots, read without ROS."""
