"""A robot's connection to its gateway: the socket, the greeting, the handshake, the token of the session."""
