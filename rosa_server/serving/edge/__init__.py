"""The gateway: sockets, metrics, keys and what a person does to a running server. Its decisions are in `core/`."""
