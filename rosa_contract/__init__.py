"""What robot and server agree on: configuration, messages, codec, clock and errors. No ROS, no torch."""
