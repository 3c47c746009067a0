"""What drivers and nodes alike need of ROS."""
