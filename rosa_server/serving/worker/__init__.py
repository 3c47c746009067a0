"""A worker process: takes batches from its gateway, infers, answers. And a worker as a backend for commands."""
