"""Which GPU serves which streams at given action rates, and the schedule that this makes."""
