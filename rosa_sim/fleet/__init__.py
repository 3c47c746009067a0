"""A fleet of robots with the classes that run in production, under a simulated clock or over real sockets."""
