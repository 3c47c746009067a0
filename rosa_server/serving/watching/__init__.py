"""What dashboards of this machine read of a gateway, and how a person's decision reaches a robot through it."""
