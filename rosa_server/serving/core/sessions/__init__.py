"""Who is connected and who answers a robot: hello, slots, routes, failover, and whether a header fits its model."""
