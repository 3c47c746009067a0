"""What is known of the workers: what each holds, which of them is slow or away, and which may take a batch next."""
