"""State machines as literal tables: that of a task, and three small ones beside it."""
