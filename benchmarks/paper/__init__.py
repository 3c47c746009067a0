"""What the ROSA paper publishes about schedules, beside what our scheduler makes of the same workloads."""
