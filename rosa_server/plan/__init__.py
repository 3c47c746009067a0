"""What a gateway has to know of a schedule: the scheduler makes it, the serving core follows it. Pure."""
