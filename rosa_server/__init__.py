"""ROSA on the server: the request path in `serving`, the models in `models`."""
