"""The scheduler, the exact search, the batcher and the queue's orders."""
