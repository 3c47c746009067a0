"""What waits and in which order: tickets, queues, policies, batches."""
