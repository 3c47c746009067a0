"""ROSA on the robot: pure decisions in `runtime`, ROS 2 shells around them."""
