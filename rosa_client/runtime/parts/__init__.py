"""What a core remembers, in parts that each own their state: only its own class writes what is in a part."""
