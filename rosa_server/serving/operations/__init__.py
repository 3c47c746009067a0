"""What a person does to a running server, step by step, without losing a call."""
