"""Which schedule to carry out: candidates, what they are predicted to do, and the one that is taken."""
