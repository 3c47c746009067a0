"""Measure one kind of fact each. They read files, sockets and topics, move nothing, and decide nothing."""
