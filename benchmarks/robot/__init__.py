"""The robot's side: its processor, its arm interface, and how it executes chunks."""
