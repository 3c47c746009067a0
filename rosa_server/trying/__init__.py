"""`rosa try`: one model, asked once or along a recording, and what looks wrong about its answers."""
