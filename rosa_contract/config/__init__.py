"""What a factory file and a robot file describe, as frozen dataclasses, and how they are read."""
