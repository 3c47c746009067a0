"""What robots, gateways and workers send each other: the messages, what they consist of, and how they become frames."""
