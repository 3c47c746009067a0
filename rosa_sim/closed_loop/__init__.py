"""A fleet of simulated Pandas with the shipped policy: tasks finished, in physics or drawn from what physics showed."""
