"""What every process of a server is built on: logs, memory, keys, and what starts a worker."""
