"""A schedule while the factory runs (ROSA 3.4.4): admission, removal, standby, failover, migration."""
