"""Which robots are connected, what answers them: hello, slots, routes, failover, whether a header fits its model."""
