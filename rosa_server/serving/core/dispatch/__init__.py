"""From an accepted request to its one answer: the core, and what it hands to queues and workers."""
