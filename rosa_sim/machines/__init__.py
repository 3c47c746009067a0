"""Several machines on one: a Ray cluster in network namespaces, a server on it, robots, and what goes wrong."""
