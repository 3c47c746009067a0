"""Several gateways of one schedule: which of the others are there, and calls for workers of their nodes."""
