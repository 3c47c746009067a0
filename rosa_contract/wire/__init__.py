"""How messages become frames: what each message consists of, and how its fields are read safely."""
