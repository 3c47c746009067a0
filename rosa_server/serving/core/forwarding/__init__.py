"""Several gateways of one schedule: who of the others is there, and calls for workers of their nodes."""
