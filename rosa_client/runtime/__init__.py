"""Robot-side decisions: pure, no socket, thread, clock read or rclpy."""
