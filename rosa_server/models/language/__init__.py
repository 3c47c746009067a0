"""Models that look and answer in words, for System 2, safety and monitor: in this process, or behind a server."""
