"""The operator's side, pure: what is known of each robot, what may be decided about it, and how both are drawn."""
