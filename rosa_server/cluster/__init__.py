"""Who starts, watches and restarts workers. Each way starts the same worker, which speaks the same ZeroMQ data path."""
