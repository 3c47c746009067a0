"""A robot, or a program that stands for one, in plain Python: no ROS. docs/python_client.md shows it on one page."""
