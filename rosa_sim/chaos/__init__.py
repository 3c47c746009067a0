"""Random faults against the simulated fleet, with every invariant checked after every event: docs/chaos.md."""
