"""Models that run in the gateway's own thread, where a process would take longer to wake than they run."""
