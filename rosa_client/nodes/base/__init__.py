"""What every node is built on: start and stop, the life cycle and its bond, parameters, QoS, the log."""
