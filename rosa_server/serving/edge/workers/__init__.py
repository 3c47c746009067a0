"""The gateway's side of the workers: their links, and which of them are ready or away."""
