"""Where a person meets robots over ROS 2: the panel, and the clients behind `rosa operator`, `run` and `calibrate`."""
