"""The evaluation of Kairos (5.3, 5.5): traces of tasks are replayed against production's queue and its policies."""
