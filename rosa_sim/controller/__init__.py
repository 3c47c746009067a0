"""A simulated Panda behind ros2_control's own topics, services and actions, in a separate process."""
