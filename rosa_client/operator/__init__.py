"""The operator's side, pure: what is known of each robot, which decisions it offers, and how both are drawn."""
