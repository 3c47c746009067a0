"""One round trip, beside the transports of other servers."""
