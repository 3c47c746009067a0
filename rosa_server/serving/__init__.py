"""The request path, in order: gateway, router, queue, batcher, worker. Decisions are pure; I/O is at the edge."""
